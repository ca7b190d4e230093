package ir

// Philox4x32 returns the four words of the counter-based generator Philox-4x32
// with 10 rounds for a counter and a key (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", 2011).
func Philox4x32(counter [4]uint32, key [2]uint32) [4]uint32 {
	const (
		mul0, mul1   = 0xD2511F53, 0xCD9E8D57
		weyl0, weyl1 = 0x9E3779B9, 0xBB67AE85 // golden ratio and sqrt(3)-1
	)
	for range 10 {
		p0, p1 := mul0*uint64(counter[0]), mul1*uint64(counter[2])
		counter = [4]uint32{
			uint32(p1>>32) ^ counter[1] ^ key[0], uint32(p1),
			uint32(p0>>32) ^ counter[3] ^ key[1], uint32(p0),
		}
		key[0] += weyl0
		key[1] += weyl1
	}
	return counter
}

// RandomBlock returns block offset+block (modulo 2^64) of the random ops' stream of words for a seed: the Philox words
// for the counter (low half, high half, 0, 0) and the key (low half, high half of the seed). Element i of a random op
// uses word i%4 of block i/4.
func RandomBlock(seed, offset, block uint64) [4]uint32 {
	n := offset + block
	return Philox4x32([4]uint32{uint32(n), uint32(n >> 32)}, [2]uint32{uint32(seed), uint32(seed >> 32)})
}
