package chat

// expr is an expression of the syntax tree.
type expr interface {
	eval(r *run, s *scope) value
}

// stmt is a statement of the syntax tree.
type stmt interface {
	exec(r *run, s *scope)
}

// Kinds of expressions.
type (
	constant struct{ v value }
	variable struct{ name string }
	unary    struct {
		op string
		x  expr
	}
	binary struct {
		op   string
		x, y expr
	}
	comparison struct { // a < b < c
		x    expr
		ops  []string
		list []expr
	}
	conditional struct{ cond, then, otherwise expr }
	listExpr    struct {
		items []expr
		kind  listKind
	}
	dictExpr  struct{ keys, values []expr }
	attribute struct { // x.name
		x    expr
		name string
	}
	item  struct{ x, key expr } // x[key]
	slice struct{ x, from, to, step expr }
	call  struct {
		f    expr
		args argExprs
	}
	filter struct {
		x    expr
		name string
		args argExprs
	}
	test struct {
		x    expr
		name string
		args argExprs
		not  bool
	}
	argExprs struct {
		list        []expr
		names       []string
		named       []expr
		rest, namer expr // *rest, **namer
	}
)

// Kinds of statements.
type (
	block    []stmt
	printing struct { // text, or an expression
		text str
		x    expr
		line int
	}
	condition struct {
		line            int
		cond            expr
		then, otherwise block
	}
	forLoop struct {
		line            int
		targets         []string
		unpack          bool // the targets are a tuple
		over, where     expr
		body, otherwise block
		recursive       bool
	}
	assignment struct {
		line    int
		targets []string
		unpack  bool
		attr    string // if set, the attribute of the namespace named by the only target
		x       expr
	}
	blockAssignment struct {
		line    int
		target  string
		attr    string
		filters []filter
		body    block
	}
	macro struct {
		line     int
		name     string
		params   []string
		defaults []expr // of the last parameters
		body     block
	}
	callBlock struct {
		line   int
		caller macro
		call   expr
	}
	filterBlock struct {
		line    int
		filters []filter
		body    block
	}
	with struct {
		line   int
		names  []string
		values []expr
		body   block
	}
	jump struct{ isBreak bool }
)
