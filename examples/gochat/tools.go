package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/vkc-go/vkc/frontend/chat"
)

// tool is a kind of function that the model can call: the names of function and parameter, and how to ask for it.
type tool struct {
	names, params []string
	dtype         string // of the parameter, in JSON schema
	draw          func(r *rand.Rand) request
}

// request is a question that needs a tool.
type request struct {
	text     string
	argument any
	results  []string // the tool's result, in several forms
	answer   string
}

// toolKinds are the tools that the model was trained on.
var toolKinds = []tool{
	{strings.Fields("get_weather weather"), strings.Fields("city location"), "string", weather},
	{strings.Fields("get_time current_time"), strings.Fields("city location"), "string", clock},
	{strings.Fields("calculator calculate"), strings.Fields("expression formula"), "string", calculate},
	{strings.Fields("set_timer start_timer"), strings.Fields("minutes duration"), "integer", timer},
	{strings.Fields("get_stock_price stock_price"), strings.Fields("symbol ticker"), "string", price},
	{strings.Fields("phone_book find_phone"), strings.Fields("name person"), "string", phone},
}

var (
	cities = strings.Fields("Paris London Berlin Rome Madrid Vienna Prague Oslo Dublin Athens Lisbon Tokyo Delhi " +
		"Cairo Lima Boston Chicago Seattle Toronto Sydney Moscow Beijing Zurich Geneva Munich Milan Naples Porto " +
		"Warsaw Kyoto Osaka Seoul Nairobi Lagos Bogota Quito Havana Dallas Denver Miami")
	people = strings.Fields("Anna Ben Clara David Emma Frank Grace Henry Irene Jack Karl Laura Maria Nina Oscar Paul " +
		"Rosa Sam Tina Victor")
	symbols = strings.Fields("ACME GOLD TEA IRON SALT WOOL WINE CORN COAL ZINC")
	skies   = strings.Fields("sunny cloudy rainy foggy windy clear")
)

func weather(r *rand.Rand) request {
	city, degrees, sky := pick(r, cities), r.IntN(40), pick(r, skies)
	return request{
		fill(r, city, "", "What is the weather in {a}?", "How is the weather in {a}?", "Weather in {a}?",
			"Tell me the weather in {a}.", "What's the weather like in {a}?", "How is the weather in {a} today?"), city,
		[]string{fmt.Sprintf("%d degrees, %s", degrees, sky), fmt.Sprintf(`{"temperature": %d, "sky": "%s"}`, degrees, sky)},
		fmt.Sprintf("In %s it is %d degrees and %s.", city, degrees, sky)}
}

func clock(r *rand.Rand) request {
	city, now := pick(r, cities), fmt.Sprintf("%02d:%02d", r.IntN(24), r.IntN(60))
	return request{
		fill(r, city, "", "What time is it in {a}?", "Tell me the time in {a}.", "What is the time in {a}?",
			"Time in {a}?",
			"What time is it now in {a}?"), city,
		[]string{now, fmt.Sprintf(`{"time": "%s"}`, now)}, fmt.Sprintf("It is %s in %s.", now, city)}
}

func calculate(r *rand.Rand) request {
	a, b := 10+r.IntN(990), 10+r.IntN(990)
	op := pick(r, []string{"+", "-", "*"})
	result := map[string]int{"+": a + b, "-": a - b, "*": a * b}[op]
	expression := fmt.Sprintf("%d %s %d", a, op, b)
	return request{
		fill(r, expression, "", "What is {a}?", "Compute {a}.", "How much is {a}?", "{a}", "Calculate {a}."), expression,
		[]string{fmt.Sprint(result), fmt.Sprintf(`{"result": %d}`, result)}, fmt.Sprintf("%s = %d", expression, result)}
}

func timer(r *rand.Rand) request {
	n := 1 + r.IntN(99)
	return request{
		fill(r, n, "", "Set a timer for {a} minutes.", "Start a timer for {a} minutes.",
			"Set the timer to {a} minutes.",
			"Wake me in {a} minutes.", "Remind me in {a} minutes."), n,
		[]string{"ok", `{"ok": true}`, "done"}, fmt.Sprintf("The timer is set to %d minutes.", n)}
}

func price(r *rand.Rand) request {
	symbol, dollars := pick(r, symbols), 1+r.IntN(999)
	return request{
		fill(r, symbol, "", "What is the price of {a}?", "How much is {a}?", "What does {a} cost?",
			"Tell me the price of {a}."), symbol,
		[]string{fmt.Sprint(dollars), fmt.Sprintf(`{"price": %d}`, dollars)},
		fmt.Sprintf("%s costs %d dollars.", symbol, dollars)}
}

func phone(r *rand.Rand) request {
	person, number := pick(r, people), fmt.Sprintf("555%04d", r.IntN(10000))
	return request{
		fill(r, person, "", "What is the phone number of {a}?", "Find the number of {a}.", "How can I call {a}?",
			"I want to call {a}."), person,
		[]string{number, fmt.Sprintf(`{"number": "%s"}`, number)}, fmt.Sprintf("The number of %s is %s.", person, number)}
}

// offer is a tool of a request, under its name there.
type offer struct {
	kind        int // in toolKinds
	name, param string
}

// drawOffer draws a tool of a kind. A third have longer names than usual, so that the model gets used to others.
func drawOffer(r *rand.Rand, kind int) offer {
	o := offer{kind, pick(r, toolKinds[kind].names), pick(r, toolKinds[kind].params)}
	if r.IntN(3) == 0 {
		o.name = pick(r, strings.Split(",my_,the_,fetch_,call_,new_", ",")) + o.name +
			pick(r, strings.Split(",_now,_tool,_api,_for,_of", ","))
		o.param = pick(r, strings.Split(",my_,a_,which_,input_", ",")) + o.param +
			pick(r, strings.Split(",_name,_value,_text,_of", ","))
	}
	return o
}

// drawOffers draws up to three tools of different kinds.
func drawOffers(r *rand.Rand) (list []offer) {
	for _, kind := range r.Perm(len(toolKinds))[:1+r.IntN(3)] {
		list = append(list, drawOffer(r, kind))
	}
	return list
}

// schema is the tool as a request over HTTP describes it.
func (o offer) schema() chat.Object {
	property := chat.Object{{Key: "type", Value: toolKinds[o.kind].dtype}}
	return chat.Object{{Key: "type", Value: "function"}, {Key: "function", Value: chat.Object{
		{Key: "name", Value: o.name},
		{Key: "parameters", Value: chat.Object{{Key: "type", Value: "object"},
			{Key: "properties", Value: chat.Object{{Key: o.param, Value: property}}},
			{Key: "required", Value: []any{o.param}}}}}}}
}

// call is the message that calls the tool.
func (o offer) call(argument any) chat.Message {
	return chat.Message{Role: "assistant", More: chat.Object{{Key: "tool_calls", Value: []any{chat.Object{
		{Key: "function", Value: chat.Object{{Key: "name", Value: o.name},
			{Key: "arguments", Value: chat.Object{{Key: o.param, Value: argument}}}}}}}}}}
}
