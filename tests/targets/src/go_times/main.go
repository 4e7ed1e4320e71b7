// Functions that return how many nanoseconds they took, on goroutines that move between threads and whose stacks are
// copied meanwhile.
//
//	go_times goroutines N   N goroutines, each calls each function a few times; prints how many changed threads
//	go_times calls N        the same, without a word on threads: with few goroutines that is chance
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var moved, grown int64

//go:noinline
func grow(depth int) int {
	var room [128]int
	room[depth%128] = depth
	if depth > 0 {
		return grow(depth-1) + room[(depth+1)%128]
	}
	return room[0]
}

// Lets others run in the middle, on a stack that has grown since.
//
//go:noinline
func wanders(depth int) int64 {
	start := time.Now()
	thread := syscall.Gettid()
	for i := 0; i < 3; i++ {
		time.Sleep(time.Duration(30+depth) * time.Millisecond)
		runtime.Gosched()
	}
	if grow(200) == 0 {
		atomic.AddInt64(&grown, 1)
	}
	if depth > 0 {
		wanders(depth - 1)
	}
	if syscall.Gettid() != thread {
		atomic.AddInt64(&moved, 1)
	}
	return int64(time.Since(start))
}

// Every second call is left by a panic.
//
//go:noinline
func panics(i int) int64 {
	start := time.Now()
	time.Sleep(time.Millisecond)
	if i%2 == 1 {
		panic(i)
	}
	return int64(time.Since(start))
}

func survives(i int) {
	defer func() {
		if recover() != nil {
			time.Sleep(60 * time.Millisecond)
		}
	}()
	panics(i)
}

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	runtime.GOMAXPROCS(4)
	var all sync.WaitGroup
	for i := 0; i < count; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			wanders(2)
			for k := 0; k < 4; k++ {
				survives(k)
			}
		}()
	}
	all.Wait()
	if os.Args[1] == "goroutines" {
		fmt.Printf("CALL moved=%v grown=%v\n", moved > 0, grown == int64(3*count))
	} else {
		fmt.Printf("CALL grown=%v\n", grown == int64(3*count))
	}
}
