package rounds

func sum(x, y, z float64) float64 { return x*y + z } // this package is of another module
