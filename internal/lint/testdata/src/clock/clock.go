package clock

import "time"

func wait() { <-time.After(time.Second) }
