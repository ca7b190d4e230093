// Package syntax has trees of GLSL: expressions, statements and definitions. It has a parser and a printer for them.
//
// The generator writes statements as GLSL with trees inserted: Format("%s[%s] = %s;", array, index, value). All passes
// over shaders work on trees. For example, they remove unused variables, or join the shaders of several kernels.
//
// Trees are immutable, so that shaders share the trees of library functions. A pass makes new trees for the parts that
// it changes.
//
// If a source has the printer's style, the printer prints its tree exactly as it was: one statement per line, four
// spaces per level, spaces around binary operators. Redundant parentheses of the source are part of the tree.
package syntax
