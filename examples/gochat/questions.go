package main

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

//go:embed facts.txt
var factsText string

//go:embed packages.txt
var packagesText string

// fact is a line of facts.txt or packages.txt: a name, and what one uses it for, as "sort a slice".
type fact struct{ name, use string }

func parseFacts(text string) (list []fact) {
	for line := range strings.Lines(text) {
		name, use, _ := strings.Cut(strings.TrimSpace(line), " ")
		list = append(list, fact{name, use})
	}
	return list
}

var facts, packages = parseFacts(factsText), parseFacts(packagesText)

// question is a question and its only right answer.
type question struct {
	kind, text, answer string
}

// heldOut reports whether a question is for tests: one in sixteen, by its text. No training has it.
func heldOut(text string) bool {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32()%16 == 7
}

// kinds are the kinds of questions that need no tools. A kind is drawn in proportion to its weight.
var kinds = []struct {
	name   string
	weight int
	draw   func(r *rand.Rand) (text, answer string)
}{
	{"sum", 20, sum},
	{"difference", 20, difference},
	{"product", 10, product},
	{"parity", 2, parity},
	{"weekday", 10, weekday},
	{"month", 6, month},
	{"function", 14, function},
	{"use", 14, use},
	{"package", 8, packageUse},
	{"greeting", 4, greeting},
	{"unknown", 4, unknown},
}

// drawQuestion draws a question for training.
func drawQuestion(r *rand.Rand) question {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := r.IntN(total)
	for _, k := range kinds {
		for n -= k.weight; n < 0; {
			if text, answer := k.draw(r); !heldOut(text) {
				return question{k.name, text, answer}
			}
		}
	}
	panic("unreachable")
}

// pick returns one of a list.
func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// fill picks a form, and puts a and b into it.
func fill(r *rand.Rand, a, b any, forms ...string) string {
	return strings.NewReplacer("{a}", fmt.Sprint(a), "{b}", fmt.Sprint(b)).Replace(pick(r, forms))
}

func sum(r *rand.Rand) (string, string) {
	a, b := r.IntN(51), r.IntN(51)
	return fill(r, a, b, "What is {a} + {b}?", "{a} + {b}", "{a} + {b} =", "What is {a} plus {b}?", "Add {a} and {b}.",
			"How much is {a} + {b}?", "Compute {a} + {b}.", "What is the sum of {a} and {b}?"),
		steps(a, b, "+", 1)
}

func difference(r *rand.Rand) (string, string) {
	a, b := r.IntN(51), r.IntN(51)
	a, b = max(a, b), min(a, b)
	return fill(r, a, b, "What is {a} - {b}?", "{a} - {b}", "{a} - {b} =", "What is {a} minus {b}?",
		"How much is {a} - {b}?", "Compute {a} - {b}."), steps(a, b, "-", -1)
}

// steps is the way to a sum or difference: first the tens of b, then the rest.
func steps(a, b int, op string, sign int) string {
	tens, ones := b/10*10, b%10
	if tens == 0 || ones == 0 {
		return fmt.Sprintf("%d %s %d = %d", a, op, b, a+sign*b)
	}
	return fmt.Sprintf("%d %s %d = %d %s %d = %d", a, op, b, a+sign*tens, op, ones, a+sign*b)
}

func product(r *rand.Rand) (string, string) {
	a, b := r.IntN(11), r.IntN(11)
	return fill(r, a, b, "What is {a} * {b}?", "{a} * {b}", "{a} * {b} =", "What is {a} times {b}?",
			"How much is {a} times {b}?", "Multiply {a} by {b}.", "Compute {a} * {b}."),
		fmt.Sprintf("%d * %d = %d", a, b, a*b)
}

func parity(r *rand.Rand) (string, string) {
	a := r.IntN(100)
	return fill(r, a, "", "Is {a} even or odd?", "Is {a} odd or even?", "Is the number {a} even?"),
		fmt.Sprintf("%d is %s.", a, []string{"even", "odd"}[a%2])
}

var (
	weekdays = strings.Fields("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
	months   = strings.Fields("January February March April May June July August September October November December")
	lengths  = []int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	ordinals = strings.Fields("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth")
)

func weekday(r *rand.Rand) (string, string) {
	day, n := r.IntN(7), 2+r.IntN(2)
	name := func(n int) string { return weekdays[(n+7)%7] }
	today := name(day)
	switch r.IntN(4) {
	case 0:
		return fill(r, today, "", "What day comes after {a}?", "Which day is after {a}?", "Tell me the day after {a}.",
			"What is the day after {a}?"), fmt.Sprintf("The day after %s is %s.", today, name(day+1))
	case 1:
		return fill(r, today, "", "What day comes before {a}?", "Which day is before {a}?",
				"Tell me the day before {a}.", "What is the day before {a}?"),
			fmt.Sprintf("The day before %s is %s.", today, name(day-1))
	case 2:
		return fill(r, today, n, "What day is {b} days before {a}?", "Which day is {b} days before {a}?",
				"Today is {a}. Which day was it {b} days ago?"),
			fmt.Sprintf("%d days before %s is %s.", n, today, name(day-n))
	default:
		return fill(r, today, n, "What day is {b} days after {a}?", "Which day is {b} days after {a}?",
				"If today is {a}, what day is it in {b} days?", "Today is {a}. Which day is it in {b} days?"),
			fmt.Sprintf("%d days after %s is %s.", n, today, name(day+n))
	}
}

func month(r *rand.Rand) (string, string) {
	m := r.IntN(12)
	name := func(n int) string { return months[(n+12)%12] }
	this := name(m)
	switch r.IntN(5) {
	case 0:
		return fill(r, this, "", "Which month comes after {a}?", "What month is after {a}?",
			"Tell me the month after {a}."), fmt.Sprintf("The month after %s is %s.", this, name(m+1))
	case 1:
		return fill(r, this, "", "Which month comes before {a}?", "What month is before {a}?",
			"Tell me the month before {a}."), fmt.Sprintf("The month before %s is %s.", this, name(m-1))
	case 2:
		return fill(r, ordinals[m], "", "Which is the {a} month?", "What is the {a} month of the year?",
			"Name the {a} month."), fmt.Sprintf("The %s month is %s.", ordinals[m], this)
	case 3:
		return fill(r, this, "", "Which month of the year is {a}?", "What is the number of the month {a}?"),
			fmt.Sprintf("%s is the %s month.", this, ordinals[m])
	}
	answer := fmt.Sprintf("%s has %d days.", this, lengths[m])
	if m == 1 {
		answer = "February has 28 days, and 29 in leap years."
	}
	return fill(r, this, "", "How many days has {a}?", "How many days does {a} have?", "How long is {a}?",
		"How many days are in {a}?"), answer
}

// function asks for the function with a use.
func function(r *rand.Rand) (string, string) {
	f := pick(r, facts)
	return fill(r, f.use, "", "How do I {a} in Go?", "How can I {a}?", "How do I {a}?", "What is used to {a}?",
		"Which part of Go's library can {a}?", "I want to {a}.", "What do I need to {a}?"), "Use " + f.name + "."
}

// use asks for the use or the package of a function.
func use(r *rand.Rand) (string, string) {
	f := pick(r, facts)
	if pkg, name, _ := strings.Cut(f.name, "."); r.IntN(4) == 0 && unique(name) {
		return fill(r, name, "", "In which package is {a}?", "Which package has {a}?", "Where do I find {a}?"),
			fmt.Sprintf("%s is in package %s.", name, pkg)
	}
	return fill(r, f.name, "", "What does {a} do?", "What is {a}?", "What is {a} for?", "Explain {a}.",
			"Tell me about {a}.", "When do I use {a}?", "What do I use {a} for?"),
		fmt.Sprintf("Use %s to %s.", f.name, f.use)
}

// unique reports whether only one package of the facts has a name.
func unique(name string) bool {
	n := 0
	for _, f := range facts {
		if strings.HasSuffix(f.name, "."+name) {
			n++
		}
	}
	return n == 1
}

func packageUse(r *rand.Rand) (string, string) {
	p := pick(r, packages)
	if r.IntN(2) == 0 {
		return fill(r, p.use, "", "Which package helps me {a}?", "Which package do I need to {a}?",
			"Which package of Go can {a}?", "Name the package to {a}."), fmt.Sprintf("Package %s.", p.name)
	}
	return fill(r, p.name, "", "What is package {a} for?", "What does package {a} do?", "Tell me about package {a}.",
		"What is the package {a}?", "Explain package {a}."), fmt.Sprintf("Package %s helps you %s.", p.name, p.use)
}

const (
	ability = "I can add, subtract and multiply small numbers, and I know days, months and Go's standard library."
	shrug   = "I do not know that. I know small numbers, days, months and Go's standard library."
)

// greetings are questions about the model, each list with its answer.
var greetings = []struct {
	asks   []string
	answer string
}{
	{[]string{"Hello", "Hi", "Hello!", "Hi!", "Hey", "Hi there", "Hello there!", "Good morning",
		"Good evening!", "Hey!"},
		"Hello! How can I help you?"},
	{[]string{"What are you?", "Who are you?", "Who made you?", "What is your name?", "What model are you?",
		"Are you a robot?", "Tell me about yourself.", "Introduce yourself."},
		"I am gochat, a very small language model made with vkc."},
	{[]string{"What can you do?", "What do you know?", "Help", "Help!", "How can you help me?", "What can I ask you?",
		"What can I ask?", "Can you help me?"}, ability},
	{[]string{"Thanks", "Thank you", "Thanks!", "Thank you!", "Thanks a lot", "Thank you very much!", "Great, thanks"},
		"You are welcome."},
	{[]string{"Bye", "Goodbye", "Bye!", "Goodbye!", "See you", "See you later!", "Bye bye"}, "Goodbye!"},
	{[]string{"How are you?", "How are you today?", "How do you do?", "How is it going?", "Are you well?"},
		"I am fine, thank you."},
}

func greeting(r *rand.Rand) (string, string) {
	g := pick(r, greetings)
	return pick(r, g.asks), g.answer
}

// things are subjects that the model knows nothing about.
var things = []string{"dogs", "the moon", "cars", "music", "football", "pizza", "love", "trees", "the ocean", "history",
	"money", "chess", "art", "birds", "physics", "poetry", "films", "space", "tea", "cats", "snow", "war", "politics"}

func unknown(r *rand.Rand) (string, string) {
	return fill(r, pick(r, things), pick(r, cities), "Tell me about {a}.", "What do you think of {a}?",
		"Write a poem about {a}.", "Do you like {a}?", "Tell me a joke about {a}.", "What is the capital of {b}?",
		"Who lives in {b}?", "How far is {b}?", "Where is {b}?", "Why is there {a}?", "Write a story about {a}.",
		"What is the best book about {a}?", "How old is {b}?", "Can you sing about {a}?"), shrug
}
