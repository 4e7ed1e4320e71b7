// A Go program that dereferences nil and recovers, thousands of times, on goroutines that wander: the runtime owns
// SIGSEGV. Ends with status 1 if a panic is lost or one comes that should not.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

type node struct {
	name string
	next *node
}

// Its method calls, so it has a frame, and has no stack of its own but that: the load that faults is right before
// `pop %rbp; ret`, where Go since 1.21 ends its functions so.
type box struct {
	size, value int
}

var recovered, fine, recoveredBoxes, fineBoxes, touched atomic.Int64

//go:noinline
func visit(n *node, times int) int {
	return len(n.name) + times
}

//go:noinline
func touch() {
	touched.Add(1)
}

//go:noinline
func (b *box) get() int {
	touch()
	return b.value
}

//go:noinline
func tryBox(b *box) (result int, failed bool) {
	defer func() {
		if problem := recover(); problem != nil {
			failed = strings.Contains(fmt.Sprint(problem), "nil pointer dereference")
		}
	}()
	return b.get(), false
}

//go:noinline
func try(n *node, times int) (result int, failed bool) {
	defer func() {
		if problem := recover(); problem != nil {
			failed = strings.Contains(fmt.Sprint(problem), "nil pointer dereference")
		}
	}()
	return visit(n, times), false
}

func main() {
	rounds := 1000
	if len(os.Args) > 2 && os.Args[1] == "calls" {
		rounds, _ = strconv.Atoi(os.Args[2])
	}
	var all sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < rounds; i++ {
				if _, failed := try(nil, i); failed {
					recovered.Add(1)
				}
				if n, failed := try(&node{name: strings.Repeat("x", i%100)}, 1); !failed && n == i%100+1 {
					fine.Add(1)
				}
				if _, failed := tryBox(nil); failed {
					recoveredBoxes.Add(1)
				}
				if n, failed := tryBox(&box{value: i}); !failed && n == i {
					fineBoxes.Add(1)
				}
				if i%64 == 0 {
					runtime.GC()
				}
			}
		}()
	}
	all.Wait()
	fmt.Printf("CALL main.visit recovered %d fine %d\n", recovered.Load(), fine.Load())
	fmt.Printf("CALL main.(*box).get recovered %d fine %d touched %d\n", recoveredBoxes.Load(), fineBoxes.Load(), touched.Load())
	for _, count := range []int64{recovered.Load(), fine.Load(), recoveredBoxes.Load(), fineBoxes.Load(), touched.Load() / 2} {
		if count != int64(4*rounds) {
			os.Exit(1)
		}
	}
}
