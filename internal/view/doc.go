// Package view collects what a compilation did in one record, and shows it as a web page: the graph before and after
// each pass, the kernels with their GLSL, the decisions with their prices, the memory plan, and traces of runs.
//
// A Record is plain data. Collect fills it in from one compilation, which passes report to by name. The page in page/
// reads it as JSON. HTML puts page and record into one file, and Handler serves that file to this machine.
package view
