// Calls work on several goroutines; each prints the number that the runtime gives it in a traceback.
//
//	go_goid goroutines N   N goroutines, one line "CALL goid value" each
//	go_goid calls N        N calls on one, with no number, which differs from run to run
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

//go:noinline
func work(value int) int { return value * 3 }

func ownNumber() string {
	var text [64]byte
	return strings.Fields(string(text[:runtime.Stack(text[:], false)]))[1]
}

func main() {
	count := 5
	if len(os.Args) > 2 {
		count, _ = strconv.Atoi(os.Args[2])
	}
	if len(os.Args) > 1 && os.Args[1] == "calls" {
		for i := 0; i < count; i++ {
			fmt.Printf("CALL work %d = %d\n", i, work(i))
		}
		return
	}
	var all sync.WaitGroup
	for i := 0; i < count; i++ {
		all.Add(1)
		go func(value int) {
			defer all.Done()
			work(value)
			fmt.Printf("CALL %s %d\n", ownNumber(), value)
		}(i)
		runtime.Gosched()
	}
	all.Wait()
}
