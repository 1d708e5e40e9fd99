package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"sync"
)

// Goroutines on several threads hash a file's blocks; the result is their order's.
func main() {
	data, err := os.ReadFile("big")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	const block = 1 << 18
	sums := make([][32]byte, (len(data)+block-1)/block)
	var group sync.WaitGroup
	for i := range sums {
		group.Add(1)
		go func() {
			defer group.Done()
			end := min((i+1)*block, len(data))
			sums[i] = sha256.Sum256(data[i*block : end])
		}()
	}
	group.Wait()
	for i, sum := range sums {
		fmt.Printf("%d %x\n", i, sum[:8])
	}
	if err := os.WriteFile("sums", []byte(fmt.Sprintf("%x", sums)), 0o600); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
