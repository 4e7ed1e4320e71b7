// Results of every shape, in both of Go's calling conventions; each call is printed with what it returned.
//
//	go_abi calls N
package main

import (
	"fmt"
	"os"
	"strconv"
)

func stackSum(a, b int64) int64
func stackScale(x float64, n int64) float64

type pair struct {
	A int8
	B float64
}

type wide struct {
	Counts [3]int32
	Tail   float32
}

//go:noinline
func oneFloat(x float64) float64 { return x / 4 }

//go:noinline
func oneSmall(x int) int8 { return int8(-x) }

//go:noinline
func oneText(n int) string { return "text-" + strconv.Itoa(n) }

//go:noinline
func onePair(n int) pair { return pair{int8(-n), float64(n) + 0.5} }

//go:noinline
func onTheStack(n int32, _ [2]int64) wide { return wide{[3]int32{n, n + 1, n + 2}, float32(n) / 2} }

//go:noinline
func mixed(n int, _ int, x float64) (float64, int, string, float32) {
	return x * 2, n + 1, "m" + strconv.Itoa(n), float32(x)
}

//go:noinline
func blank(n int) (_ int, half float64, _ string, next int) { return 1, float64(n) / 2, "b", n + 1 }

//go:noinline
func named(n int) (sum int, err error) {
	defer func() {
		if r := recover(); r != nil {
			sum, err = -5, fmt.Errorf("%v", r)
		}
	}()
	if n%2 == 1 {
		panic("odd")
	}
	return n + 100, nil
}

//go:noinline
func generic[T int | float64](x T) (T, bool) { return x + x, true }

func main() {
	count := 1
	if len(os.Args) > 2 {
		count, _ = strconv.Atoi(os.Args[2])
	}
	for i := 0; i < count; i++ {
		n := i + 3
		fmt.Println("CALL stackSum", stackSum(int64(n), 40))
		fmt.Println("CALL stackScale", stackScale(0.5, int64(n)))
		fmt.Println("CALL oneFloat", oneFloat(float64(n)))
		fmt.Println("CALL oneSmall", oneSmall(n))
		fmt.Println("CALL oneText", oneText(n))
		fmt.Println("CALL onePair", onePair(n))
		fmt.Println("CALL onTheStack", onTheStack(int32(n), [2]int64{9, 9}))
		a, b, c, d := mixed(n, 5, 1.25)
		fmt.Println("CALL mixed", a, b, c, d)
		e, f, g, h := blank(n)
		fmt.Println("CALL blank", e, f, g, h)
		j, k := named(n)
		fmt.Println("CALL named", j, k)
		l, m := generic(n)
		o, p := generic(1.5)
		fmt.Println("CALL generic", l, m, o, p)
	}
}
