// A DNS forwarder without the network: requests with questions are handled on goroutines that change threads.
// Modes as in driver.h: none (READY, then a request every 10 ms), `calls N`, `wait`, `spin SECONDS`.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

type Question struct {
	Name          string
	Qtype, Qclass uint16
}

type MsgHdr struct {
	Id       uint16
	Response bool
	Rcode    int
}

type Msg struct {
	MsgHdr
	Question []Question
	Answer   []string
}

type ResponseWriter interface {
	WriteMsg(m *Msg) error
	RemoteAddr() string
}

type udpWriter struct {
	remote string
	sent   int
}

//go:noinline
func (w *udpWriter) WriteMsg(m *Msg) error {
	w.sent++
	if m.Rcode != 0 {
		return errors.New("refused")
	}
	return nil
}

//go:noinline
func (w *udpWriter) RemoteAddr() string { return w.remote }

type stats struct {
	requests map[string]int
	latency  []time.Duration
}

type server struct {
	name  string
	zones map[string]string
	stats stats
	ratio float64
	mu    sync.Mutex
}

//go:noinline
func (s *server) handleRequest(w ResponseWriter, r *Msg) error {
	answer, ok := s.lookup(r.Question[0].Name, r.Question[0].Qtype)
	m := &Msg{MsgHdr: MsgHdr{Id: r.Id, Response: true}, Question: r.Question}
	if ok {
		m.Answer = append(m.Answer, answer)
	} else {
		m.Rcode = 3
	}
	return w.WriteMsg(m)
}

//go:noinline
func (s *server) lookup(name string, qtype uint16) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.requests[name]++
	if len(s.stats.requests) > 1000 {
		s.stats.requests = map[string]int{}
	}
	answer, ok := s.zones[name]
	return answer, ok
}

//go:noinline
func join(parts []string, sep string, max int) (joined string, count int, err error) {
	if len(parts) > max {
		return "", len(parts), fmt.Errorf("more than %d parts", max)
	}
	for i, p := range parts {
		if i > 0 {
			joined += sep
		}
		joined += p
	}
	return joined, len(parts), nil
}

//go:noinline
func weigh(ratio float64, small float32, on bool, n int8) float64 {
	if on {
		return ratio * float64(small)
	}
	return float64(n)
}

// Small enough that the compiler inlines it into request.
func reverse(i int) string { return strconv.Itoa(i%250) + ".0.168.192.in-addr.arpa." }

func request(s *server, i int, quiet bool) {
	name := reverse(i)
	w := &udpWriter{remote: "10.0.0.7:53"}
	r := &Msg{MsgHdr: MsgHdr{Id: uint16(i)}, Question: []Question{{name, 12, 1}, {"second.", 1, 1}}}
	done := make(chan error)
	go func() { done <- s.handleRequest(w, r) }()
	err := <-done
	joined, count, _ := join([]string{"a", name}, "/", 5)
	weight := weigh(s.ratio, 2.5, true, -3)
	if !quiet {
		fmt.Printf("CALL main.(*server).handleRequest r.Question[0].Name=%q r.Id=%d = %v\n", name, r.Id, err)
		fmt.Printf("CALL main.join = %q %d\n", joined, count)
		fmt.Printf("CALL main.weigh = %v\n", weight)
	}
}

func main() {
	mode, number := "", 1
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	if len(os.Args) > 2 {
		number, _ = strconv.Atoi(os.Args[2])
	}
	s := &server{name: "ns1", ratio: 0.5, stats: stats{requests: map[string]int{}},
		zones: map[string]string{reverse(1): "router.lan.", reverse(2): "printer.lan."}}
	if mode == "calls" {
		for i := 0; i < number; i++ {
			request(s, i, false)
		}
		return
	}
	fmt.Println("READY", os.Getpid())
	switch mode {
	case "wait":
		in := bufio.NewScanner(os.Stdin)
		for i := 0; in.Scan(); i++ {
			request(s, i, false)
		}
	case "spin":
		rounds := 0
		for end := time.Now().Add(time.Duration(number) * time.Second); time.Now().Before(end); rounds++ {
			request(s, rounds, true)
		}
		fmt.Printf("rounds=%d\n", rounds)
	default:
		for i := 0; ; i++ {
			request(s, i, true)
			time.Sleep(10 * time.Millisecond)
		}
	}
}
