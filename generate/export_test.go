package generate

// TinyModel and SetMixed are for the tests of package generate_test.
var (
	TinyModel = tinyModel
	SetMixed  = setMixed
)
