// Package syntax has trees of GLSL: expressions, statements and definitions, a
// parser and a printer.
//
// The generator writes statements as GLSL with trees in it:
// Statements("%s[%s] = %s;", array, index, value). All that looks at shaders
// works on the trees: what removes unused variables, guards NaN, weighs ops and
// joins kernels.
//
// Trees do not change once they are made, so that shaders share the trees of
// library functions. A pass makes new ones of what it changes.
//
// The printer gives back what the parser has read, character for character, if
// that is spelled as the printer does: a statement a line, four blanks a level,
// blanks around binary operators. Brackets that the source has and the grammar
// does not need are part of the tree.
package syntax
