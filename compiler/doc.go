// Package compiler makes a program of a graph, for one device: the whole way from passes to SPIR-V.
//
// [Lower] takes a graph as far as GLSL and needs neither device nor tools. [Compile] also compiles the GLSL, and keeps
// the program in the user's cache. Most programs use package vkc, which compiles for the device that it opened.
package compiler
