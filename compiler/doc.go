// Package compiler compiles a graph to a program for one device, from passes to SPIR-V.
//
// [Lower] compiles a graph to GLSL and needs neither a device nor tools. [Compile] also compiles the GLSL, and stores
// the program in the user's cache. Most programs use package vkc, which compiles for the device that it opened.
package compiler
