package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// GC-heavy Go: thousands of goroutines, deep stacks that grow and are copied, panics recovered, defers,
// channels, maps; every result is checked. READY, then until standard input closes.

var wrong, rounds int64
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

//go:noinline
func text(a int) string { return fmt.Sprintf("<%d>", a) }

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
		if os.Getenv("TORTURE_HOT") == "" {
			time.Sleep(time.Duration(1+id%5) * 20 * time.Millisecond)
		}
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
	for i := 0; i < 400; i++ {
		wait.Add(1)
		go func(id int) { defer wait.Done(); worker(id) }(i)
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
