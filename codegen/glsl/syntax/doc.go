// Package syntax has trees of GLSL: expressions, statements and definitions. It has a parser and a printer for them.
//
// The generator writes statements as GLSL with trees in it: Format("%s[%s] = %s;", array, index, value). All passes
// over shaders work on trees. They remove unused variables, guard NaN, weigh ops and join kernels.
//
// Trees are immutable, so that shaders share the trees of library functions. A pass makes new trees for the parts that
// it changes.
//
// The printer reproduces the parser's source, character for character, if that source has the printer's style: a
// statement a line, four spaces a level, spaces around binary operators. Redundant parentheses of the source are part
// of the tree.
package syntax
