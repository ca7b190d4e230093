package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/frontend/chat"
)

// tool is a kind of function that the model can call, and how to ask for it.
type tool struct {
	names  []string
	about  []string // descriptions
	params []param
	draw   func(r *rand.Rand) request
}

// param is a parameter of a tool: its names, and its type in JSON schema.
type param struct {
	names []string
	dtype string
}

// request is a question that needs a tool.
type request struct {
	text      string
	arguments []any    // of the tool's parameters, in their order
	results   []string // the tool's result, in several forms
	answer    string
}

// text is a parameter of type string.
func text(names string) param { return param{strings.Fields(names), "string"} }

// toolKinds are the tools that the model was trained on.
var toolKinds = []tool{
	{strings.Fields("get_weather weather weather_report forecast"),
		[]string{"Get the weather of a city", "The current weather", "Report the weather"},
		[]param{text("city location place town")}, weather},
	{strings.Fields("get_time current_time clock time_in"),
		[]string{"Get the time in a city", "The current time of a place", "Tell the local time"},
		[]param{text("city location place timezone")}, clock},
	{strings.Fields("calculator calculate compute eval"),
		[]string{"Compute an expression", "A calculator", "Evaluate arithmetic"},
		[]param{text("expression formula input term")}, calculate},
	{strings.Fields("set_timer start_timer timer alarm"),
		[]string{"Start a timer", "Set a timer of some minutes", "Ring after some minutes"},
		[]param{{strings.Fields("minutes duration length time"), "integer"}}, timer},
	{strings.Fields("get_stock_price stock_price get_price price"),
		[]string{"Get the price of a stock", "Prices of goods", "Look up a price"},
		[]param{text("symbol ticker stock good")}, price},
	{strings.Fields("phone_book find_phone lookup_number get_phone_number"),
		[]string{"Find a phone number", "Phone numbers of people", "Look up the number of a person"},
		[]param{text("name person who contact")}, phone},
	{strings.Fields("weekday get_weekday day_of_week date_info"),
		[]string{"Get the weekday of a date", "The day of the week", "Find the weekday of a date"},
		[]param{text("date day when")}, dayOfDate},
	{strings.Fields("days_between date_difference count_days date_diff"),
		[]string{"Count the days between two dates", "The difference of two dates", "Days from one date to another"},
		[]param{text("from start first begin"), text("to end last until")}, daysBetween},
	{strings.Fields("go_doc godoc documentation lookup_symbol"),
		[]string{"Show the documentation of a Go symbol", "Documentation of Go", "Look up Go's documentation"},
		[]param{text("symbol name identifier query")}, documentation},
	{strings.Fields("go_package_doc doc_lookup package_symbol show_doc"),
		[]string{"Show the documentation of a symbol in a package", "Documentation of a package's symbol"},
		[]param{text("package pkg module"), text("symbol name identifier")}, packageDocumentation},
	{strings.Fields("convert_units convert unit_converter conversion"),
		[]string{"Convert a value to another unit", "Convert units", "A converter of units"},
		[]param{{strings.Fields("value amount number quantity"), "number"}, text("from from_unit source"),
			text("to to_unit target")}, convert},
	{strings.Fields("send_message send_text message notify"),
		[]string{"Send a message to a person", "Send a text", "Write to somebody"},
		[]param{text("to recipient person"), text("text message body content")}, message},
	{strings.Fields("web_search search find search_web"),
		[]string{"Search the web", "Search for pages", "Find pages about a subject"},
		[]param{text("query q terms keywords")}, search},
	{strings.Fields("set_light light switch_light lamp"),
		[]string{"Turn the light of a room on or off", "Switch a light", "Control the lights"},
		[]param{text("room place where"), {strings.Fields("on state enabled"), "boolean"}}, light},
}

var (
	cities = strings.Split("Paris,London,Berlin,Rome,Madrid,Vienna,Prague,Oslo,Dublin,Athens,Lisbon,Tokyo,Delhi,Cairo,"+
		"Lima,Boston,Chicago,Seattle,Toronto,Sydney,Moscow,Beijing,Zurich,Geneva,Munich,Milan,"+
		"Naples,Porto,Warsaw,Kyoto,Osaka,Seoul,Nairobi,Lagos,Bogota,Quito,Havana,Dallas,Denver,"+
		"Miami,New York,San Francisco,Los Angeles,Rio de Janeiro,Hong Kong,Cape Town,Mexico City,"+
		"Buenos Aires,Tel Aviv,New Delhi,Hamburg,Bern,Basel,Lyon,Nice,Turin,Venice,Krakow,Budapest,"+
		"Helsinki,Stockholm,Copenhagen,Brussels,Amsterdam,Istanbul,Singapore,Bangkok,Manila,"+
		"Jakarta,Mumbai", ",")
	people = strings.Fields("Anna Ben Clara David Emma Frank Grace Henry Irene Jack Karl Laura Maria Nina Oscar Paul " +
		"Rosa Sam Tina Victor Alice Bob Carol Eve Mallory Peter Lucy Tom Julia Max Sophie Leo Mia " +
		"Noah Olivia Liam")
	symbols = strings.Fields("ACME GOLD TEA IRON SALT WOOL WINE CORN COAL ZINC SILVER COPPER WHEAT RICE OIL GAS " +
		"SUGAR COTTON")
	skies    = strings.Fields("sunny cloudy rainy foggy windy clear snowy stormy")
	rooms    = strings.Split("kitchen,bedroom,bathroom,hall,garage,garden,office,cellar,living room,dining room", ",")
	subjects = strings.Split("cheap flights,vegan recipes,used cars,red shoes,good books,old maps,new phones,"+
		"free music,small houses,fast trains,summer jobs,winter coats,garden tools,chess openings,"+
		"Go compilers,Vulkan drivers", ",")
	messages = strings.Split("I am late,see you soon,call me back,dinner is ready,the train is late,good luck,"+
		"I miss you,we won,bring some bread,the meeting is over,come home,thank you,happy birthday,"+
		"wait for me,I am here", ",")
	measures = strings.Fields("km miles feet kg ounces gallons celsius fahrenheit knots acres hectares cm mm liters")
)

// place draws a city, or makes up one: the model learns to copy names that it does not know.
func place(r *rand.Rand) string {
	if r.IntN(3) == 0 {
		return title(word(r))
	}
	return pick(r, cities)
}

// person draws a name, or makes up one.
func person(r *rand.Rand) string {
	if r.IntN(3) == 0 {
		return title(word(r))
	}
	return pick(r, people)
}

// phrase draws one of a list, or makes up one.
func phrase(r *rand.Rand, list []string) string {
	if r.IntN(3) > 0 {
		return pick(r, list)
	}
	words := []string{word(r)}
	for range 1 + r.IntN(3) {
		words = append(words, pick(r, strings.Fields(pick(r, list))))
	}
	r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return strings.Join(words, " ")
}

// weather, and each function below, makes a request for the tool of this name in toolKinds: a question in one of
// several forms, the arguments and possible results of the call, and the answer.
func weather(r *rand.Rand) request {
	city, degrees, sky := place(r), r.IntN(40), pick(r, skies)
	return request{
		fill(r, city, "", "What is the weather in {a}?", "How is the weather in {a}?", "Weather in {a}?",
			"Tell me the weather in {a}.", "What's the weather like in {a}?", "How is the weather in {a} today?",
			"Is it raining in {a}?", "How warm is it in {a}?"), []any{city},
		[]string{fmt.Sprintf("%d degrees, %s", degrees, sky),
			fmt.Sprintf(`{"temperature": %d, "sky": "%s"}`, degrees, sky)},
		fmt.Sprintf("In %s it is %d degrees and %s.", city, degrees, sky)}
}

func clock(r *rand.Rand) request {
	city, now := place(r), fmt.Sprintf("%02d:%02d", r.IntN(24), r.IntN(60))
	return request{
		fill(r, city, "", "What time is it in {a}?", "Tell me the time in {a}.", "What is the time in {a}?",
			"Time in {a}?", "What time is it now in {a}?", "How late is it in {a}?"), []any{city},
		[]string{now, fmt.Sprintf(`{"time": "%s"}`, now)}, fmt.Sprintf("It is %s in %s.", now, city)}
}

func calculate(r *rand.Rand) request {
	a, b, c := r.IntN(pick(r, []int{100, 1000, 10000})), 1+r.IntN(pick(r, []int{100, 1000, 10000})), 1+r.IntN(100)
	op := pick(r, []string{"+", "-", "*", "/"})
	value := func(a, b float64) float64 {
		return map[string]float64{"+": a + b, "-": a - b, "*": a * b, "/": a / b}[op]
	}
	result, expression := value(float64(a), float64(b)), fmt.Sprintf("%d %s %d", a, op, b)
	asked := expression
	switch r.IntN(4) {
	case 0:
		word := map[string]string{"+": "plus", "-": "minus", "*": "times", "/": "divided by"}[op]
		asked = fmt.Sprintf("%d %s %d", a, word, b)
	case 1:
		expression = fmt.Sprintf("(%d + %d) %s %d", a, b, op, c)
		asked, result = expression, value(float64(a+b), float64(c))
	}
	shown := strconv.FormatFloat(result, 'f', -1, 64)
	if len(shown) > 12 {
		shown = strconv.FormatFloat(result, 'f', 4, 64)
	}
	return request{
		fill(r, asked, "", "What is {a}?", "Compute {a}.", "How much is {a}?", "{a}", "Calculate {a}.", "{a} ="),
		[]any{expression}, []string{shown, fmt.Sprintf(`{"result": %s}`, shown)},
		fmt.Sprintf("%s = %s", expression, shown)}
}

func timer(r *rand.Rand) request {
	n := 1 + r.IntN(120)
	return request{
		fill(r, n, "", "Set a timer for {a} minutes.", "Start a timer for {a} minutes.",
			"Set the timer to {a} minutes.", "Wake me in {a} minutes.", "Remind me in {a} minutes.",
			"Timer for {a} minutes."), []any{n},
		[]string{"ok", `{"ok": true}`, "done"}, fmt.Sprintf("The timer is set to %d minutes.", n)}
}

// price asks for the price of a known or made-up symbol.
func price(r *rand.Rand) request {
	symbol, dollars := pick(r, symbols), 1+r.IntN(999)
	if r.IntN(3) == 0 {
		symbol = strings.ToUpper(word(r))
	}
	return request{
		fill(r, symbol, "", "What is the price of {a}?", "How much is {a}?", "What does {a} cost?",
			"Tell me the price of {a}.", "How much does {a} cost?"), []any{symbol},
		[]string{fmt.Sprint(dollars), fmt.Sprintf(`{"price": %d}`, dollars)},
		fmt.Sprintf("%s costs %d dollars.", symbol, dollars)}
}

func phone(r *rand.Rand) request {
	who, number := person(r), fmt.Sprintf("555%04d", r.IntN(10000))
	return request{
		fill(r, who, "", "What is the phone number of {a}?", "Find the number of {a}.", "How can I reach {a}?",
			"I want to call {a}.", "Give me the phone number of {a}."), []any{who},
		[]string{number, fmt.Sprintf(`{"number": "%s"}`, number)}, fmt.Sprintf("The number of %s is %s.", who, number)}
}

// fullDate draws a date, in words and as tools take it.
func fullDate(r *rand.Rand) (words, iso string) {
	m, y := r.IntN(12), 1950+r.IntN(100)
	d := 1 + r.IntN(lengths[m])
	iso = fmt.Sprintf("%d-%02d-%02d", y, m+1, d)
	switch r.IntN(3) {
	case 0:
		return iso, iso
	case 1:
		return fmt.Sprintf("%d %s %d", d, months[m], y), iso
	}
	return fmt.Sprintf("%s %d, %d", months[m], d, y), iso
}

func dayOfDate(r *rand.Rand) request {
	words, iso := fullDate(r)
	day := pick(r, weekdays)
	return request{
		fill(r, words, "", "Which weekday is {a}?", "What day of the week is {a}?", "On which weekday is {a}?",
			"What weekday was {a}?", "Tell me the weekday of {a}."), []any{iso},
		[]string{day, fmt.Sprintf(`{"weekday": "%s"}`, day)}, fmt.Sprintf("%s is a %s.", iso, day)}
}

func daysBetween(r *rand.Rand) request {
	from, isoFrom := fullDate(r)
	to, isoTo := fullDate(r)
	days := r.IntN(20000)
	return request{
		fill(r, from, to, "How many days are between {a} and {b}?", "How many days are from {a} to {b}?",
			"Count the days from {a} to {b}.", "How long is it from {a} to {b}?"), []any{isoFrom, isoTo},
		[]string{fmt.Sprint(days), fmt.Sprintf(`{"days": %d}`, days)},
		fmt.Sprintf("From %s to %s are %d days.", isoFrom, isoTo, days)}
}

// symbolOf draws a name of Go's library, or makes up one.
func symbolOf(r *rand.Rand) (pkg, name string) {
	pkg, name, _ = strings.Cut(pick(r, facts).name, ".")
	if r.IntN(3) == 0 {
		pkg, name = word(r), title(word(r))
	}
	return pkg, name
}

func documentation(r *rand.Rand) request {
	pkg, name := symbolOf(r)
	name = pkg + "." + name
	about := strings.ToUpper(word(r)[:1]) + word(r) + " " + pick(r, facts).use
	return request{
		fill(r, name, "", "Show the documentation of {a}.", "Look up {a}.", "go doc {a}",
			"Find the documentation of {a}.", "Open the documentation of {a}."), []any{name},
		[]string{about, fmt.Sprintf(`{"doc": "%s"}`, about)}, fmt.Sprintf("%s: %s.", name, about)}
}

func packageDocumentation(r *rand.Rand) request {
	pkg, name := symbolOf(r)
	about := strings.ToUpper(word(r)[:1]) + word(r) + " " + pick(r, facts).use
	return request{
		fill(r, pkg+"."+name, "", "Show the documentation of {a}.", "Look up {a}.", "go doc {a}",
			"Find the documentation of {a}.", "Open the documentation of {a}."), []any{pkg, name},
		[]string{about, fmt.Sprintf(`{"doc": "%s"}`, about)}, fmt.Sprintf("%s.%s: %s.", pkg, name, about)}
}

func convert(r *rand.Rand) request {
	n, from, to := any(r.IntN(1000)), pick(r, measures), pick(r, measures)
	if r.IntN(3) == 0 {
		n = float64(10*r.IntN(100)+1+r.IntN(9)) / 10
	}
	result := fmt.Sprintf("%d.%d", r.IntN(1000), 1+r.IntN(9))
	return request{
		fill(r, fmt.Sprint(n, " ", from), to, "Convert {a} to {b}.", "What is {a} in {b}?", "How many {b} are {a}?",
			"Express {a} in {b}."), []any{n, from, to},
		[]string{result, fmt.Sprintf(`{"result": %s}`, result)}, fmt.Sprintf("%v %s are %s %s.", n, from, result, to)}
}

func message(r *rand.Rand) request {
	who, what := person(r), phrase(r, messages)
	return request{
		fill(r, who, what, "Tell {a}: {b}", "Write to {a}: {b}", "Send {a} the message: {b}",
			"Send a message to {a}: {b}", "Text {a}: {b}"), []any{who, what},
		[]string{"ok", "sent", `{"ok": true}`}, fmt.Sprintf("The message to %s is sent.", who)}
}

func search(r *rand.Rand) request {
	what, found := phrase(r, subjects), phrase(r, subjects)
	return request{
		fill(r, what, "", "Search for {a}.", "Search the web for {a}.", "Find pages about {a}.", "Find {a} on the web.",
			"Look for {a} on the web."), []any{what},
		[]string{found, fmt.Sprintf(`{"title": "%s"}`, found)}, fmt.Sprintf("I found: %s.", found)}
}

func light(r *rand.Rand) request {
	room, on := phrase(r, rooms), r.IntN(2) == 0
	state := map[bool]string{true: "on", false: "off"}[on]
	return request{
		fill(r, room, state, "Turn {b} the light in the {a}.", "Switch {b} the light in the {a}.",
			"Turn the light in the {a} {b}.", "Light {b} in the {a}."), []any{room, on},
		[]string{"ok", "done", `{"ok": true}`}, fmt.Sprintf("The light in the %s is %s.", room, state)}
}

// offer is a tool of a request, under its name there.
type offer struct {
	kind   int // in toolKinds, or -1 for a tool that no question needs
	name   string
	about  string // "" is none
	params []param
	order  []int // the order of the parameters in the schema
}

// affixed puts words around a name. Half of them are made up, so that the model gets used to any.
func affixed(r *rand.Rand, name string) string {
	before := pick(r, strings.Split(",my_,the_,fetch_,call_,new_,do_,api_,x_", ","))
	after := pick(r, strings.Split(",_now,_tool,_api,_for,_of,_v2,_v3,_2,_name,_value,_text", ","))
	if r.IntN(2) == 0 {
		before, after = pick(r, []string{"", word(r) + "_"}), pick(r, []string{"", "_" + word(r)})
	}
	return before + name + after
}

// drawOffer draws a tool of a kind. Three of five have other names than usual, so that the model gets used to them. A
// description says which tool it is if its name does not.
func drawOffer(r *rand.Rand, kind int) offer {
	t := toolKinds[kind]
	o := offer{kind: kind, name: pick(r, t.names), order: r.Perm(len(t.params))}
	for _, p := range t.params {
		o.params = append(o.params, param{[]string{pick(r, p.names)}, p.dtype})
	}
	if r.IntN(3) == 0 {
		o.about = pick(r, t.about)
	}
	switch r.IntN(5) {
	case 0:
		o.name, o.about = word(r)+"_"+word(r), pick(r, t.about)
		if len(o.params) == 1 {
			o.params[0].names[0] = word(r)
		}
	case 1, 2:
		o.name = affixed(r, o.name)
		for _, p := range o.params {
			p.names[0] = affixed(r, p.names[0])
		}
	}
	return o
}

// drawOffers draws up to three tools of different kinds, and at times one that no question needs.
func drawOffers(r *rand.Rand) (list []offer) {
	kinds := r.Perm(len(toolKinds))[:1+r.IntN(3)]
	for _, kind := range kinds {
		if kind == packageKind && has(list, documentationKind) || kind == documentationKind && has(list, packageKind) {
			continue // both serve the same questions
		}
		list = append(list, drawOffer(r, kind))
	}
	if r.IntN(6) == 0 {
		list = append(list,
			offer{kind: -1, name: word(r) + "_" + word(r), params: []param{text(word(r))}, order: []int{0}})
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// schema is the tool as a request over HTTP describes it.
func (o offer) schema() chat.Object {
	var properties chat.Object
	var required []any
	for _, i := range o.order {
		p := o.params[i]
		properties = append(properties, chat.Field{Key: p.names[0], Value: chat.Object{{Key: "type", Value: p.dtype}}})
		required = append(required, p.names[0])
	}
	function := chat.Object{{Key: "name", Value: o.name}}
	if o.about != "" {
		function = append(function, chat.Field{Key: "description", Value: o.about})
	}
	function = append(function, chat.Field{Key: "parameters", Value: chat.Object{{Key: "type", Value: "object"},
		{Key: "properties", Value: properties}, {Key: "required", Value: required}}})
	return chat.Object{{Key: "type", Value: "function"}, {Key: "function", Value: function}}
}

// call is the message that calls the tool.
func (o offer) call(arguments []any) chat.Message {
	var list chat.Object
	for _, i := range o.order {
		list = append(list, chat.Field{Key: o.params[i].names[0], Value: arguments[i]})
	}
	return chat.Message{Role: "assistant", More: chat.Object{{Key: "tool_calls", Value: []any{chat.Object{
		{Key: "function", Value: chat.Object{{Key: "name", Value: o.name}, {Key: "arguments", Value: list}}}}}}}}
}
