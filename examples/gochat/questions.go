package main

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed facts.txt
var factsText string

//go:embed packages.txt
var packagesText string

//go:embed keywords.txt
var keywordsText string

// fact is a line of a table: a name, and what one uses it for, as "sort a slice". In facts.txt, a signature is
// between.
type fact struct{ name, signature, use string }

func parseFacts(text string) (list []fact) {
	for line := range strings.Lines(text) {
		columns := strings.Split(strings.TrimSpace(line), "\t")
		f := fact{name: columns[0], use: columns[len(columns)-1]}
		if len(columns) == 3 {
			f.signature = columns[1]
		}
		list = append(list, f)
	}
	return list
}

var facts, packages, keywords = parseFacts(factsText), parseFacts(packagesText), parseFacts(keywordsText)

// question is a question and its only right answer.
type question struct {
	kind, text, answer string
}

// heldOut reports whether a question is for tests: one in sixteen, by its letters. No training has it.
func heldOut(text string) bool {
	h := fnv.New32a()
	h.Write([]byte(strings.TrimRight(strings.ToLower(text), "?.!= ")))
	return h.Sum32()%16 == 7
}

// byHeart is the kind of questions that are phrases of their own: no other question says what their answers are. So a
// training has all of them, and the exam none.
const byHeart = "greeting"

// kinds are the kinds of questions that need no tools. A kind is drawn in proportion to its weight.
var kinds = []struct {
	name   string
	weight int
	draw   func(r *rand.Rand) (text, answer string)
}{
	{"sum", 24, sum},
	{"difference", 28, difference},
	{"product", 20, product},
	{"quotient", 10, quotient},
	{"square", 4, square},
	{"parity", 2, parity},
	{"comparison", 8, comparison},
	{"order", 10, order},
	{"neighbour", 6, neighbour},
	{"large", 6, large},
	{"unit", 8, conversion},
	{"weekday", 12, weekday},
	{"month", 8, month},
	{"date", 8, date},
	{"leap year", 6, leap},
	{"time", 8, timeOfDay},
	{"function", 30, function},
	{"use", 30, use},
	{"signature", 24, signature},
	{"package", 8, packageUse},
	{"keyword", 6, keyword},
	{"unknown name", 12, unknownName},
	{"greeting", 6, greeting},
	{"refusal", 8, unknown},
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
			if text, answer := k.draw(r); k.name == byHeart || !heldOut(text) {
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

// function asks for the function with a use.
func function(r *rand.Rand) (question, answer string) {
	f := pick(r, facts)
	return fill(r, f.use, "", "How do I {a} in Go?", "How can I {a}?", "How do I {a}?", "What is used to {a}?",
		"Which part of Go's library can {a}?", "I want to {a}.", "What do I need to {a}?"), "Use " + f.name + "."
}

// use asks for the use or the package of a function.
func use(r *rand.Rand) (question, answer string) {
	f := pick(r, facts)
	if pkg, name, _ := strings.Cut(f.name, "."); r.IntN(4) == 0 && unique(name) {
		return fill(r, name, "", "In which package is {a}?", "Which package has {a}?", "Where do I find {a}?"),
			fmt.Sprintf("%s is in package %s.", name, pkg)
	}
	return fill(r, f.name, "", aboutNames...), fmt.Sprintf("Use %s to %s.", f.name, f.use)
}

// aboutNames are forms of questions about a name {a} of Go's library.
var aboutNames = []string{"What does {a} do?", "What is {a}?", "What is {a} for?", "Explain {a}.",
	"Tell me about {a}.",
	"When do I use {a}?", "What do I use {a} for?", "What is {a} in Go?", "Describe {a}."}

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

// longSignature is the maximum length of a signature in a question.
const longSignature = 70

// signature asks for the declaration of a name, and for its results.
func signature(r *rand.Rand) (question, answer string) {
	for {
		f := pick(r, facts)
		types, isFunction := strings.CutPrefix(f.signature, "func")
		if len(types) > longSignature {
			continue
		}
		if !isFunction {
			return fill(r, f.name, "", "Is {a} a function?", "What kind of thing is {a}?",
					"Is {a} a function or a type?"),
				fmt.Sprintf("%s is a %s.", f.name, f.signature)
		}
		switch r.IntN(8) {
		case 0:
			return fill(r, f.name, "", "Is {a} a function?", "What kind of thing is {a}?",
					"Is {a} a function or a type?"),
				fmt.Sprintf("%s is a function.", f.name)
		case 1, 2:
			answer := fmt.Sprintf("No, %s does not return an error.", f.name)
			if strings.HasSuffix(types, "error") || strings.HasSuffix(types, "error)") {
				answer = fmt.Sprintf("Yes, %s returns an error.", f.name)
			}
			return fill(r, f.name, "", "Does {a} return an error?", "Can {a} return an error?", "Has {a} an error?"),
				answer
		}
		return fill(r, f.name, "", "What is the signature of {a}?", "Show the signature of {a}.",
			"What are the parameters of {a}?", "What does {a} take and return?", "How do I call {a}?",
			"How is {a} declared?"), "func " + f.name + types
	}
}

func packageUse(r *rand.Rand) (question, answer string) {
	p := pick(r, packages)
	if r.IntN(2) == 0 {
		return fill(r, p.use, "", "Which package helps me {a}?", "Which package do I need to {a}?",
			"Which package of Go can {a}?", "Name the package to {a}."), fmt.Sprintf("Package %s.", p.name)
	}
	return fill(r, p.name, "", "What is package {a} for?", "What does package {a} do?", "Tell me about package {a}.",
		"What is the package {a}?", "Explain package {a}."), fmt.Sprintf("Package %s helps you %s.", p.name, p.use)
}

// keyword asks for keywords and built-in names of the language.
func keyword(r *rand.Rand) (question, answer string) {
	k := pick(r, keywords)
	if r.IntN(2) == 0 {
		return fill(r, k.use, "", "Which word of Go can {a}?", "Which keyword do I need to {a}?",
			"Which built-in name can {a}?", "With which word do I {a}?"), fmt.Sprintf("With %s.", k.name)
	}
	return fill(r, k.name, "", "What does the keyword {a} do?", "What does {a} do in Go?", "What is {a} in Go?",
			"What is {a} for in Go?", "Explain the word {a} of Go.", "What does the word {a} mean in Go?"),
		fmt.Sprintf("Use %s to %s.", k.name, k.use)
}

// unknownName asks for names that the facts do not have.
func unknownName(r *rand.Rand) (question, answer string) {
	for {
		pkg, _, _ := strings.Cut(pick(r, facts).name, ".")
		if r.IntN(3) == 0 {
			pkg = word(r)
		}
		name := pkg + "." + title(word(r))
		if r.IntN(2) == 0 { // words that real names have
			name = pkg + "." + pick(r, nameParts()) + pick(r, nameParts())
		}
		if !slices.ContainsFunc(facts, func(f fact) bool { return f.name == name }) {
			return fill(r, name, "", append(aboutNames[:len(aboutNames):len(aboutNames)],
					"What is the signature of {a}?",
					"Show the signature of {a}.", "Does {a} return an error?", "How do I call {a}?")...),
				fmt.Sprintf("I do not know %s.", name)
		}
	}
}

// nameParts lists words inside names of Go's library, such as "Read" and "File".
var nameParts = sync.OnceValue(func() (list []string) {
	parts := regexp.MustCompile("[A-Z][a-z]+")
	for _, f := range facts {
		_, name, _ := strings.Cut(f.name, ".")
		list = append(list, parts.FindAllString(name, -1)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
})

// word makes up a word of two to four syllables.
func word(r *rand.Rand) string {
	var b strings.Builder
	for range 2 + r.IntN(3) {
		b.WriteByte("bcdfghjklmnprstvwz"[r.IntN(18)])
		b.WriteByte("aeiou"[r.IntN(5)])
		if r.IntN(4) == 0 {
			b.WriteByte("lmnrst"[r.IntN(6)])
		}
	}
	return b.String()
}

// title writes a word with an upper-case letter.
func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

const (
	ability = "I compute with numbers up to 999, and I know dates, units and Go's standard library. I can call tools."
	shrug   = "I do not know that. I know numbers up to 999, dates, units and Go's standard library."
)

// smallTalk is phrases with the same answer.
type smallTalk struct {
	asks   []string
	answer string
}

// has reports whether a text is one of the phrases.
func (s smallTalk) has(text string) bool {
	bare := func(s string) string { return strings.ToLower(strings.TrimRight(s, "?.!")) }
	return slices.ContainsFunc(s.asks, func(ask string) bool { return bare(ask) == bare(text) })
}

// greetings are small talk and questions about the model.
var greetings = []smallTalk{
	{[]string{"Hello", "Hi", "Hey", "Hi there", "Hello there", "Good morning", "Good evening", "Good afternoon",
		"Hello gochat",
		"Hi gochat", "Hey there", "Good day", "Greetings", "Hello, how can you help?"}, "Hello! How can I help you?"},
	{[]string{"What are you?", "Who are you?", "What is your name?", "What model are you?", "Are you a robot?",
		"Tell me about yourself.", "Introduce yourself.", "What is gochat?", "Who am I talking to?",
		"Are you a person?",
		"Are you human?", "Are you an AI?", "What should I call you?", "Do you have a name?"},
		"I am gochat, a very small language model."},
	{[]string{"Who made you?", "Who trained you?", "How were you made?", "How were you trained?",
		"Where do you come from?",
		"What is vkc?", "Who built you?", "What were you trained on?", "How did you learn?", "What are you made of?"},
		"A program made my conversations, and vkc trained me on them."},
	{[]string{"How large are you?", "How big are you?", "How many parameters do you have?", "What is your size?",
		"Are you a large model?", "Are you small?", "How small are you?"}, "I have 3.5 million parameters."},
	{[]string{"What can you do?", "What do you know?", "Help", "Help me", "How can you help me?",
		"What can I ask you?",
		"What can I ask?", "Can you help me?", "What are your skills?", "What are you good at?", "What do you do?",
		"What questions can I ask?", "What can you tell me?"}, ability},
	{[]string{"Thanks", "Thank you", "Thanks a lot", "Thank you very much", "Great, thanks", "Many thanks",
		"Thank you so much",
		"Thanks for the help", "Perfect, thank you", "Nice, thanks", "Cheers"}, "You are welcome."},
	{[]string{"Bye", "Goodbye", "See you", "See you later", "Bye bye", "Good night", "See you tomorrow",
		"Have a nice day",
		"I have to go", "Until next time"}, "Goodbye!"},
	{[]string{"How are you?", "How are you today?", "How do you do?", "How is it going?", "Are you well?",
		"Are you okay?",
		"How do you feel?", "Everything fine?"}, "I am fine, thank you."},
	{[]string{"Yes", "No", "Okay", "Good", "Great", "Nice", "Cool", "I see", "Well done", "Very good",
		"That is right", "Wow"},
		"What would you like to know?"},
	{[]string{"That is wrong", "You are wrong", "This is not right", "Are you sure?", "I do not believe you",
		"That cannot be right", "Wrong answer"}, "I am small and make mistakes. Please check my answers."},
}

func greeting(r *rand.Rand) (question, answer string) {
	g := pick(r, greetings)
	text := pick(r, g.asks)
	if !strings.ContainsAny(text, "?.") && r.IntN(3) == 0 {
		text += pick(r, []string{"!", "."})
	}
	return text, g.answer
}

// things are subjects that the model knows nothing about.
var things = strings.Split("dogs,the moon,cars,music,football,pizza,love,trees,the ocean,history,money,chess,"+
	"art,birds,"+
	"physics,poetry,films,space,tea,cats,snow,war,politics,bread,coffee,the sun,mountains,rivers,games,"+
	"dinosaurs,robots,"+
	"the weather on Mars,philosophy,biology,cooking,travel,trains,ships,planes,school,books,cheese,wine,flowers,"+
	"rain,"+
	"horses,fish,religion,law,medicine,my health,my job,the economy,elections,dreams,happiness,gold,volcanoes,"+
	"Python,Rust,"+
	"JavaScript,quantum computers,black holes,the Romans,the pyramids,opera,jazz,tennis,gardens,bees,wolves,"+
	"Shakespeare,"+
	"Einstein,Mozart,Napoleon,your family,the future,time travel,electricity,steel,paper,shoes,fashion,dance,sleep",
	",")

func unknown(r *rand.Rand) (question, answer string) {
	thing := pick(r, things)
	if r.IntN(4) == 0 {
		thing = word(r)
	}
	return fill(r, thing, place(r), "Tell me about {a}.", "What do you think of {a}?", "What do you know about {a}?",
		"Write a poem about {a}.", "Do you like {a}?", "Tell me a joke about {a}.", "What is the capital of {b}?",
		"Who lives in {b}?", "How far is {b}?", "Where is {b}?", "Why is there {a}?", "Write a story about {a}.",
		"What is the best book about {a}?", "How old is {b}?", "Can you sing about {a}?", "Who invented {a}?",
		"Translate {a} into French.", "How do I get to {b}?", "Who is the president of {b}?",
		"Explain {a} to a child.",
		"What is the meaning of {a}?", "Why do people like {a}?", "Write an essay about {a}.",
		"Recommend a film about {a}.",
		"How many people live in {b}?", "Give me a recipe with {a}.", "Is {a} dangerous?", "What colour has {a}?",
		"When was {b} founded?", "How does one make {a}?", "Should I buy {a}?"), shrug
}
