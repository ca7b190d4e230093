package generate

// TinyModel is for the tests of package generate_test.
var TinyModel = tinyModel
