package rounds

func sum(x, y, z float64) float64 { return x*y + z } // this package defines no numbers
