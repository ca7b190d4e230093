package bench

func sum(x, y, z float64) float64 { return x*y + z } // this package measures
