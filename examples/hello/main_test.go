package main

// The output is that of main, on whatever device this machine has.
func Example() {
	main()
	// Output: [0 1 7]
}
