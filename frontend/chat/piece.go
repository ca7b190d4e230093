package chat

// Piece is a part of a rendered text.
type Piece struct {
	Text string
	User bool // what a message said, or another value of the context: never markup
}
