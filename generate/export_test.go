package generate

// TinyModel and MixEverywhere are for the tests of package generate_test.
var (
	TinyModel     = tinyModel
	MixEverywhere = mixEverywhere
)
