package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

var (
	weekdays = strings.Fields("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
	months   = strings.Fields("January February March April May June July August September October November December")
	lengths  = []int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	ordinals = strings.Fields("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth")
)

// around returns the element of a list that wraps around.
func around(list []string, i int) string { return list[(i%len(list)+len(list))%len(list)] }

// several is a number of things: "1 day", "2 days".
func several(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

func weekday(r *rand.Rand) (question, answer string) {
	day, n := r.IntN(7), 2+r.IntN(29)
	today := weekdays[day]
	way := "" // days that are no whole weeks
	if weeks, rest := n/7, n%7; weeks > 0 && rest > 0 {
		way = fmt.Sprintf("%d days are %s and %s. ", n, several(weeks, "week"), several(rest, "day"))
	} else if weeks > 0 {
		way = fmt.Sprintf("%d days are %s. ", n, several(weeks, "week"))
	}
	switch r.IntN(6) {
	case 0:
		return fill(r, today, "", "What day comes after {a}?", "Which day is after {a}?",
				"Tell me the day after {a}.",
				"What is the day after {a}?", "If today is {a}, what day is tomorrow?",
				"Today is {a}. Which day is tomorrow?"),
			fmt.Sprintf("The day after %s is %s.", today, around(weekdays, day+1))
	case 1:
		return fill(r, today, "", "What day comes before {a}?", "Which day is before {a}?",
				"Tell me the day before {a}.",
				"What is the day before {a}?", "If today is {a}, what day was yesterday?",
				"Today is {a}. Which day was yesterday?"),
			fmt.Sprintf("The day before %s is %s.", today, around(weekdays,
				day-1))
	case 2, 3:
		return fill(r, today, n, "What day is {b} days before {a}?", "Which day is {b} days before {a}?",
				"Today is {a}. Which day was it {b} days ago?", "What weekday is {b} days before {a}?"),
			way + fmt.Sprintf("%d days before %s is %s.", n, today, around(weekdays, day-n))
	}
	return fill(r, today, n, "What day is {b} days after {a}?", "Which day is {b} days after {a}?",
			"If today is {a}, what day is it in {b} days?", "Today is {a}. Which day is it in {b} days?",
			"What weekday is {b} days after {a}?"),
		way + fmt.Sprintf("%d days after %s is %s.", n, today, around(weekdays, day+n))
}

func month(r *rand.Rand) (question, answer string) {
	m, n := r.IntN(12), 2+r.IntN(10)
	this := months[m]
	switch r.IntN(9) {
	case 0:
		return fill(r, this, "", "Which month comes after {a}?", "What month is after {a}?",
				"Tell me the month after {a}."),
			fmt.Sprintf("The month after %s is %s.", this, around(months, m+1))
	case 1:
		return fill(r, this, "", "Which month comes before {a}?", "What month is before {a}?",
			"Tell me the month before {a}."), fmt.Sprintf("The month before %s is %s.", this, around(months, m-1))
	case 2:
		return fill(r, ordinals[m], "", "Which is the {a} month?", "What is the {a} month of the year?",
			"Name the {a} month."), fmt.Sprintf("The %s month is %s.", ordinals[m], this)
	case 3:
		return fill(r, this, "", "Which month of the year is {a}?", "What is the number of the month {a}?"),
			fmt.Sprintf("%s is the %s month.", this, ordinals[m])
	case 4:
		return fill(r, this, n, "Which month is {b} months after {a}?", "What month is {b} months after {a}?",
				"It is {a}. Which month is it in {b} months?"),
			fmt.Sprintf("%d months after %s is %s.", n, this, around(months, m+n))
	case 5:
		return fill(r, this, n, "Which month is {b} months before {a}?", "What month is {b} months before {a}?",
				"It is {a}. Which month was it {b} months ago?"),
			fmt.Sprintf("%d months before %s is %s.", n, this, around(months, m-n))
	case 6:
		return fill(r, this, "", "In which quarter is {a}?", "Which quarter of the year has {a}?",
				"What quarter is {a} in?"),
			fmt.Sprintf("%s is in the %s quarter.", this, ordinals[m/3])
	}
	answer = fmt.Sprintf("%s has %d days.", this, lengths[m])
	if m == 1 {
		answer = "February has 28 days, and 29 in leap years."
	}
	return fill(r, this, "", "How many days has {a}?", "How many days does {a} have?", "How long is {a}?",
		"How many days are in {a}?", "What is the length of {a}?", "How many days are there in {a}?"), answer
}

// date asks for days next to a date, whether there is such a date, and for days between dates of a month.
func date(r *rand.Rand) (question, answer string) {
	m := r.IntN(12)
	day := 1 + r.IntN(lengths[m])
	if r.IntN(3) == 0 {
		day = pick(r, []int{1, lengths[m]})
	}
	this := fmt.Sprintf("%s %d", months[m], day)
	switch r.IntN(4) {
	case 0:
		next := fmt.Sprintf("%s %d", months[m], day+1)
		switch {
		case m == 1 && day == 28:
			next = "February 29 in leap years, and March 1 in other years"
		case day == lengths[m]:
			next = around(months, m+1) + " 1"
		}
		return fill(r, this, "", "Which date comes after {a}?", "What is the day after {a}?",
			"Which day follows {a}?",
			"What date is the day after {a}?"), fmt.Sprintf("The day after %s is %s.", this, next)
	case 1:
		before := fmt.Sprintf("%s %d", months[m], day-1)
		switch {
		case m == 2 && day == 1:
			before = "February 29 in leap years, and February 28 in other years"
		case day == 1:
			before = fmt.Sprintf("%s %d", around(months, m-1), lengths[(m+11)%12])
		}
		return fill(r, this, "", "Which date comes before {a}?", "What is the day before {a}?",
			"What date is the day before {a}?"), fmt.Sprintf("The day before %s is %s.", this, before)
	case 2:
		day = 25 + r.IntN(8)
		length, word := lengths[m], "has"
		if m == 1 {
			length, word = 29, "has at most"
		}
		yes := "Yes, "
		if day > length {
			yes = "No, "
		}
		return fill(r, months[m], day, "Is there a date {a} {b}?", "Is {a} {b} a date?", "Does {a} have a day {b}?"),
			fmt.Sprintf("%s%s %s %d days.", yes, months[m], word, length)
	}
	to := min(lengths[m], day+r.IntN(lengths[m]))
	return fill(r, this, fmt.Sprintf("%s %d", months[m], to), "How many days are from {a} to {b}?",
			"How many days are between {a} and {b}?", "How long is it from {a} to {b}?"),
		fmt.Sprintf("%d - %d = %d, so it is %s.", to, day, to-day,
			several(to-day, "day"))
}

// leap asks whether years are leap years.
func leap(r *rand.Rand) (question, answer string) {
	y := 1600 + r.IntN(800)
	if r.IntN(4) == 0 {
		y = y / 100 * 100
	}
	is := y%4 == 0 && (y%100 != 0 || y%400 == 0)
	why := "not a multiple of 4"
	switch {
	case y%400 == 0:
		why = "a multiple of 400"
	case y%100 == 0:
		why = "a multiple of 100, and not of 400"
	case is:
		why = "a multiple of 4"
	}
	if r.IntN(3) == 0 {
		n := 365
		if is {
			n++
		}
		return fill(r, y, "", "How many days has the year {a}?", "How many days are in the year {a}?",
				"How long was the year {a}?"),
			fmt.Sprintf("%d is %s, so it has %d days.", y, why, n)
	}
	answer = fmt.Sprintf("No, %d is %s.", y, why)
	if is {
		answer = fmt.Sprintf("Yes, %d is %s.", y, why)
	}
	return fill(r, y, "", "Is {a} a leap year?", "Was {a} a leap year?", "Is the year {a} a leap year?",
		"Tell me if {a} is a leap year."), answer
}

// timeOfDay asks for times after others.
func timeOfDay(r *rand.Rand) (question, answer string) {
	h, m := r.IntN(24), 5*r.IntN(12)
	now := fmt.Sprintf("%d:%02d", h, m)
	if r.IntN(3) == 0 {
		n := 1 + r.IntN(11)
		return fill(r, now, n, "What time is {b} hours after {a}?", "It is {a}. What time is it in {b} hours?",
			"Which time is {b} hours after {a}?"), fmt.Sprintf("It is %d:%02d.", (h+n)%24, m)
	}
	n := 5 * (1 + r.IntN(11))
	way, hour := fmt.Sprintf("%d + %d = %d", m, n, m+n), h
	if m+n >= 60 {
		way += fmt.Sprintf(" minutes, or 1 hour and %s", several((m+n)%60, "minute"))
		hour = (h + 1) % 24
	} else {
		way += " minutes"
	}
	return fill(r, now, n, "What time is {b} minutes after {a}?", "It is {a}. What time is it in {b} minutes?",
		"Which time is {b} minutes after {a}?"), fmt.Sprintf("%s. It is %d:%02d.", way, hour, (m+n)%60)
}
