package main

// The output of main, on any device.
func Example() {
	main()
	// Output: [0 1 7]
}
