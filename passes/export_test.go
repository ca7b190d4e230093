package passes

// Visits is how many nodes and clusters fusion has looked at.
func Visits(s *State) int { return s.Fusion.visits }
