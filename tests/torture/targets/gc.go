package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// GC-heavy Go: thousands of goroutines (3,000, or as many as the first argument says), deep stacks that grow and
// are copied, panics recovered, defers, channels, maps; every result is checked. READY, then until standard
// input closes.

var wrong, rounds int64
var count = 3000
var stop int32

func check(right bool, what string) {
	if !right {
		if atomic.AddInt64(&wrong, 1) == 1 {
			fmt.Fprintln(os.Stderr, "wrong:", what)
		}
	}
}

type node struct {
	left, right *node
	value       int
}

//go:noinline
func build(depth int) *node {
	if depth == 0 {
		return &node{value: 1}
	}
	return &node{build(depth - 1), build(depth - 1), depth}
}

//go:noinline
func (n *node) sum() int {
	if n == nil {
		return 0
	}
	return n.value + n.left.sum() + n.right.sum()
}

//go:noinline
func deep(n int) int {
	var room [64]int
	room[n%64] = n
	if n == 0 {
		return 0
	}
	return deep(n-1) + room[n%64] - n + 1
}

//go:noinline
func panics(n int) int {
	if n%3 == 0 {
		panic(n)
	}
	return n * 2
}

//go:noinline
func recovers(n int) (result int) {
	defer func() {
		if r := recover(); r != nil {
			result = -r.(int)
		}
	}()
	return panics(n)
}

//go:noinline
func spin(n int) int {
	sum := 0
	for i := 0; i < n; i++ {
		sum += i & 3
	}
	return sum
}

//go:noinline
func plain(a, b int) int { return a*3 + b }

// Two goroutines that take turns, each waiting for the other at the bottom of a deep stack.
//
//go:noinline
func exchange(depth, n int, out chan<- int, in <-chan int) int {
	if depth > 0 {
		return exchange(depth-1, n, out, in) + 1
	}
	out <- n
	return <-in
}

//go:noinline
func text(a int) string { return fmt.Sprintf("<%d>", a) }

// Awake as much, all together, as 400 that sleep for 60 ms on average; or some of them always: if all were, each
// would have its turn once a minute.
func rest(id int) {
	if os.Getenv("TORTURE_HOT") == "" || id%30 != 0 {
		time.Sleep(time.Duration(1+id%5) * 20 * time.Millisecond * time.Duration(count) / 400)
	}
}

func partner(id int, out chan<- int, in <-chan int) {
	defer close(out)
	for i := 0; atomic.LoadInt32(&stop) == 0; i++ {
		got := exchange(40+i%40, id, out, in)
		check(got == id^1+40+i%40 || atomic.LoadInt32(&stop) != 0, "exchange")
		atomic.AddInt64(&rounds, 1)
		rest(id)
	}
}

func worker(id int) {
	for atomic.LoadInt32(&stop) == 0 {
		check(build(6).sum() == 64+6+10+16+24+32+32, "tree")
		check(deep(200) == 200, "deep")
		check(recovers(9) == -9 && recovers(10) == 20, "recovers")
		check(plain(id, 4) == id*3+4, "plain")
		check(text(id) == "<"+fmt.Sprint(id)+">", "text")
		check(spin(4000) == 6000, "spin")
		m := map[int]string{}
		for i := 0; i < 50; i++ {
			m[i] = text(i)
		}
		check(len(m) == 50 && m[7] == "<7>", "map")
		atomic.AddInt64(&rounds, 1)
		rest(id)
	}
}

func spinner() {
	for atomic.LoadInt32(&stop) == 0 {
		check(spin(400000) == 600000, "long spin")
		if os.Getenv("TORTURE_HOT") == "" {
			time.Sleep(time.Millisecond)
		}
	}
}

func main() {
	var wait sync.WaitGroup
	if len(os.Args) > 1 {
		count, _ = strconv.Atoi(os.Args[1])
	}
	for i := 0; i+1 < count; i += 2 {
		wait.Add(2)
		if i%8 == 0 {
			to, from := make(chan int, 1), make(chan int, 1)
			go func(id int) { defer wait.Done(); partner(id, to, from) }(i)
			go func(id int) { defer wait.Done(); partner(id, from, to) }(i + 1)
			continue
		}
		go func(id int) { defer wait.Done(); worker(id) }(i)
		go func(id int) { defer wait.Done(); worker(id) }(i + 1)
	}
	for i := 0; i < 3; i++ {
		wait.Add(1)
		go func() { defer wait.Done(); spinner() }()
	}
	fmt.Println("READY")
	bufio.NewReader(os.Stdin).ReadString(0)
	atomic.StoreInt32(&stop, 1)
	wait.Wait()
	runtime.GC()
	fmt.Printf("rounds %d, wrong %d\n", rounds, wrong)
	if wrong != 0 || rounds == 0 {
		os.Exit(1)
	}
}
