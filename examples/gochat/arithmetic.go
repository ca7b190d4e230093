package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// largest is the largest operand of sums and differences.
const largest = 999

// number draws a number to largest. One, two and three digits are equally frequent.
func number(r *rand.Rand) int { return r.IntN(pick(r, []int{10, 100, largest + 1})) }

func sum(r *rand.Rand) (question, answer string) {
	a, b := number(r), number(r)
	return fill(r, a, b, "What is {a} + {b}?", "{a} + {b}", "{a} + {b} =", "What is {a} plus {b}?",
		"Add {a} and {b}.",
		"How much is {a} + {b}?", "Compute {a} + {b}.", "What is the sum of {a} and {b}?", "{a}+{b}", "{a} plus {b}",
		"What do {a} and {b} make?", "Calculate {a} + {b}."), addition(a, b) + fmt.Sprintf("%d + %d = %d", a, b, a+b)
}

func difference(r *rand.Rand) (question, answer string) {
	a, b := number(r), number(r)
	if r.IntN(4) > 0 {
		a, b = max(a, b), min(a, b)
	}
	way := subtraction(a, b)
	if a < b {
		way = fmt.Sprintf("%d is less than %d. %s", a, b, subtraction(b, a))
	}
	return fill(r, a, b, "What is {a} - {b}?", "{a} - {b}", "{a} - {b} =", "What is {a} minus {b}?",
		"How much is {a} - {b}?", "Compute {a} - {b}.", "Subtract {b} from {a}.", "{a}-{b}", "{a} minus {b}",
		"Take {b} from {a}.", "Calculate {a} - {b}."), way + fmt.Sprintf("%d - %d = %d", a, b, a-b)
}

// columns are the names of digits, the lowest first: a small model adds in the order of the carries.
var columns = []string{"Ones", "Tens", "Hundreds"}

// digits returns pairs of digits of two numbers, the lowest first. The smaller number is padded with zeros.
func digits(a, b int) (list [][2]int) {
	for a > 0 || b > 0 {
		list = append(list, [2]int{a % 10, b % 10})
		a, b = a/10, b/10
	}
	return list
}

// addition is the way to a sum, digit by digit: "Ones: 7 + 6 = 13. Tens: 5 + 8 + 1 = 14. ". Digits need none.
func addition(a, b int) string {
	if a < 10 && b < 10 {
		return ""
	}
	var way strings.Builder
	carry := 0
	for i, d := range digits(a, b) {
		fmt.Fprintf(&way, "%s: %d + %d", columns[i], d[0], d[1])
		if carry > 0 {
			way.WriteString(" + 1")
		}
		column := d[0] + d[1] + carry
		fmt.Fprintf(&way, " = %d. ", column)
		carry = column / 10
	}
	return way.String()
}

// subtraction is the way to a difference that is not negative: "Ones: 13 - 6 = 7. Tens: 12 - 8 - 1 = 3. ".
func subtraction(a, b int) string {
	if a < 20 && b < 10 { // easy enough without
		return ""
	}
	var way strings.Builder
	borrow := 0
	for i, d := range digits(a, b) { // of both numbers, the ones first
		top, next := d[0], 0
		if top < d[1]+borrow {
			top, next = top+10, 1
		}
		fmt.Fprintf(&way, "%s: %d - %d", columns[i], top, d[1])
		if borrow > 0 {
			way.WriteString(" - 1")
		}
		fmt.Fprintf(&way, " = %d. ", top-d[1]-borrow)
		borrow = next
	}
	return way.String()
}

// factors draws the factors of a product: the one is at most 12, and the other at most 99.
func factors(r *rand.Rand) (a, b int) {
	a, b = r.IntN(13), r.IntN(13)
	if r.IntN(2) == 0 {
		b = 13 + r.IntN(87)
	}
	if r.IntN(2) == 0 {
		a, b = b, a
	}
	return a, b
}

func product(r *rand.Rand) (question, answer string) {
	a, b := factors(r)
	return fill(r, a, b, "What is {a} * {b}?", "{a} * {b}", "{a} * {b} =", "What is {a} times {b}?", "{a}*{b}",
		"How much is {a} times {b}?", "Multiply {a} by {b}.", "Compute {a} * {b}.", "What is {a} x {b}?",
		"What is the product of {a} and {b}?", "Calculate {a} * {b}.", "{a} times {b}"), multiplication(a, b)
}

// multiplication is the way to a product, and the product. Products up to 12 * 12 are known by heart.
func multiplication(a, b int) string {
	low, high := min(a, b), max(a, b)
	if high <= 12 {
		return fmt.Sprintf("%d * %d = %d", a, b, a*b)
	}
	tens, ones := high/10*10, high%10
	return fmt.Sprintf("%d * %d = %d. %d * %d = %d. %d + %d = %d. %d * %d = %d", tens, low, tens*low, ones, low,
		ones*low, tens*low, ones*low, a*b, a, b, a*b)
}

func quotient(r *rand.Rand) (question, answer string) {
	b, q := 1+r.IntN(12), r.IntN(13)
	rest := 0
	if r.IntN(2) == 0 {
		rest = r.IntN(b)
	}
	answer = fmt.Sprintf("%d * %d = %d, so %d / %d = %d", b, q, b*q, b*q+rest, b, q)
	if rest > 0 {
		answer += fmt.Sprintf(", remainder %d", rest)
	}
	return fill(r, b*q+rest, b, "What is {a} / {b}?", "{a} / {b}", "{a} / {b} =", "Divide {a} by {b}.",
			"What is {a} divided by {b}?", "How often does {b} go into {a}?", "{a} divided by {b}",
			"Compute {a} / {b}."),
		answer
}

func square(r *rand.Rand) (question, answer string) {
	a := r.IntN(32)
	if r.IntN(2) == 0 {
		return fill(r, a*a, "", "What is the square root of {a}?", "What is the root of {a}?",
			"Compute the square root of {a}.",
			"Which number squared is {a}?"), fmt.Sprintf("%d * %d = %d, so the square root is %d.", a, a, a*a, a)
	}
	return fill(r, a, "", "What is {a} squared?", "What is the square of {a}?", "Square {a}.", "{a} squared",
			"Compute the square of {a}.", "How much is {a} squared?", "What is {a}^2?", "{a}^2",
			"{a} to the power of 2"),
		fmt.Sprintf("%d * %d = %d", a, a, a*a)
}

func parity(r *rand.Rand) (question, answer string) {
	a := number(r)
	return fill(r, a, "", "Is {a} even or odd?", "Is {a} odd or even?", "Is the number {a} even?", "Is {a} even?",
		"Is {a} odd?"), fmt.Sprintf("%d is %s.", a, []string{"even", "odd"}[a%2])
}

// relation compares two numbers in words.
func relation(a, b int) string {
	switch {
	case a > b:
		return fmt.Sprintf("%d is larger than %d.", a, b)
	case a < b:
		return fmt.Sprintf("%d is smaller than %d.", a, b)
	}
	return fmt.Sprintf("%d is equal to %d.", a, b)
}

func comparison(r *rand.Rand) (question, answer string) {
	a, b := number(r), number(r)
	if r.IntN(3) == 0 {
		b = min(largest, max(0, a-9+r.IntN(19))) // close to a
	}
	low, high := min(a, b), max(a, b)
	yes := map[bool]string{true: "Yes, ", false: "No, "}
	switch form := r.IntN(4); {
	case a == b || form == 0:
		return fill(r, a, b, "Compare {a} and {b}.", "Compare {a} with {b}."), relation(a, b)
	case form == 1:
		return fill(r, a, b, "Which is larger, {a} or {b}?", "Which number is larger, {a} or {b}?",
			"What is more, {a} or {b}?", "Which is bigger: {a} or {b}?"), relation(high, low)
	case form == 2:
		return fill(r, a, b, "Which is smaller, {a} or {b}?", "Which number is smaller, {a} or {b}?",
			"What is less, {a} or {b}?"), relation(low, high)
	case r.IntN(2) == 0:
		return fill(r, a, b, "Is {a} larger than {b}?", "Is {a} more than {b}?", "Is {a} > {b}?"), yes[a > b] +
			relation(a, b)
	default:
		return fill(r, a, b, "Is {a} smaller than {b}?", "Is {a} less than {b}?", "Is {a} < {b}?"), yes[a < b] +
			relation(a, b)
	}
}

func order(r *rand.Rand) (question, answer string) {
	list := []int{number(r), number(r), number(r)}
	text := fmt.Sprintf("%d, %d and %d", list[0], list[1], list[2])
	sorted := slices.Sorted(slices.Values(list))
	switch r.IntN(3) {
	case 0:
		return fill(r, text, "", "What is the largest of {a}?", "Which is the largest of {a}?",
				"Find the maximum of {a}."),
			fmt.Sprintf("The largest is %d.", sorted[2])
	case 1:
		return fill(r, text, "", "What is the smallest of {a}?", "Which is the smallest of {a}?",
				"Find the minimum of {a}."),
			fmt.Sprintf("The smallest is %d.", sorted[0])
	}
	return fill(r, text, "", "Sort {a}.", "Sort the numbers {a}.", "Put {a} in order."),
		fmt.Sprintf("%d, %d, %d", sorted[0], sorted[1], sorted[2])
}

func neighbour(r *rand.Rand) (question, answer string) {
	a := 1 + number(r)
	switch r.IntN(3) {
	case 0:
		return fill(r, a, "", "Which number comes after {a}?", "What comes after {a}?",
				"What is the number after {a}?"),
			fmt.Sprintf("%d comes after %d.", a+1, a)
	case 1:
		return fill(r, a, "", "Which number comes before {a}?", "What comes before {a}?",
				"What is the number before {a}?"),
			fmt.Sprintf("%d comes before %d.", a-1, a)
	}
	return fill(r, a, "", "Round {a} to the nearest ten.", "Round {a} to tens.",
			"What is {a} rounded to the nearest ten?"),
		fmt.Sprintf("%d rounded to tens is %d.", a, (a+5)/10*10)
}

// tooLarge answers questions about numbers that are too large.
const tooLarge = "That is too large for me. A tool that calculates would help."

func large(r *rand.Rand) (question, answer string) {
	op := pick(r, []string{"+", "-", "*", "/"})
	a, b := 1000+r.IntN(99000), number(r)
	switch {
	case op == "*" && r.IntN(2) == 0:
		a, b = 100+r.IntN(900), number(r)
	case op == "/" && r.IntN(2) == 0:
		a, b = 200+r.IntN(800), 13+r.IntN(87)
	}
	if r.IntN(2) == 0 {
		a, b = b, a
	}
	return fill(r, fmt.Sprintf("%d %s %d", a, op, b), "", "What is {a}?", "{a}", "{a} =", "Compute {a}.",
		"How much is {a}?", "Calculate {a}."), tooLarge
}

// unit is a unit and how many of a smaller one it has.
type unit struct {
	one, many, small string
	factor           int
}

var units = []unit{
	{"hour", "hours", "minutes", 60}, {"minute", "minutes", "seconds", 60}, {"day", "days", "hours", 24},
	{"week", "weeks", "days", 7}, {"year", "years", "months", 12}, {"century", "centuries", "years", 100},
	{"decade", "decades", "years", 10}, {"kilometre", "kilometres", "metres", 1000},
	{"metre", "metres", "centimetres", 100}, {"centimetre", "centimetres", "millimetres", 10},
	{"kilogram", "kilograms", "grams", 1000}, {"ton", "tons", "kilograms", 1000}, {"gram", "grams", "milligrams",
		1000},
	{"litre", "litres", "millilitres", 1000}, {"foot", "feet", "inches", 12}, {"yard", "yards", "feet", 3},
	{"mile", "miles", "yards", 1760}, {"pound", "pounds", "ounces", 16}, {"byte", "bytes", "bits", 8},
	{"kilobyte", "kilobytes", "bytes", 1000}, {"kibibyte", "kibibytes", "bytes", 1024}, {"euro", "euros", "cents",
		100},
	{"dollar", "dollars", "cents", 100}, {"dozen", "dozens", "pieces", 12},
}

func conversion(r *rand.Rand) (question, answer string) {
	u, n := pick(r, units), 1+r.IntN(12)
	if n == 1 {
		return fill(r, u.one, u.small, "How many {b} are in one {a}?", "How many {b} has one {a}?",
				"How many {b} is one {a}?",
				"Convert 1 {a} to {b}.", "How many {b} does a {a} have?"),
			fmt.Sprintf("1 %s has %d %s.", u.one, u.factor,
				u.small)
	}
	many := fmt.Sprintf("%d %s", n, u.many)
	return fill(r, many, u.small, "How many {b} are in {a}?", "How many {b} are {a}?", "Convert {a} to {b}.",
			"What is {a} in {b}?", "How many {b} do {a} have?", "Express {a} in {b}."),
		fmt.Sprintf("1 %s has %d %s, so %s have %d.", u.one, u.factor, u.small, many, n*u.factor)
}
