// Package compiler compiles a graph to a program for one device: it runs the passes, chooses schedules, and generates
// GLSL and SPIR-V.
//
// [Lower] generates GLSL and needs neither a device nor tools. [Compile] also compiles the GLSL to SPIR-V, and stores
// the program in the user's cache. Most users need only package vkc, which compiles for the device that it opened.
package compiler
