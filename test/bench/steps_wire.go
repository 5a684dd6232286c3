package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
)

// tape is what the services asked of their databases.
type tape struct {
	mu       sync.Mutex
	running  bool
	services map[string]*asked
	units    []unit // in the order in which they ended
}

// asked is how much one service asked of its database.
type asked struct {
	statements, trips, units int
	prepared                 map[string]string // statements by their names, which all connections have alike
}

// unit is a transaction, or what is one by itself.
type unit struct {
	service    string
	statements []bound
}

// bound is a statement with the parameters of one call, as they were sent.
type bound struct {
	sql        string
	parameters []parameter
}

// parameter is nil in its bytes for null.
type parameter struct {
	binary bool
	bytes  []byte
}

func newTape() *tape { return &tape{services: map[string]*asked{}} }

func (t *tape) run(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = on
}

// cost is what a step cost a service.
func (t *tape) cost(service string, steps int) StepCost {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, n := t.services[service], float64(steps)
	return StepCost{Statements: float64(a.statements) / n, RoundTrips: float64(a.trips) / n, Transactions: float64(a.units) / n}
}

// tap puts a wire before each database; urls lead through it.
func (t *tape) tap(ctx context.Context, dir string, databases map[string]string) (urls map[string]string, closeAll func(), err error) {
	var listeners []net.Listener
	closeAll = func() {
		for _, l := range listeners {
			_ = l.Close() // its file goes with it
		}
	}
	urls = map[string]string{}
	for service, database := range databases {
		socket, err := socketOf(database)
		if err != nil {
			return nil, nil, err
		}
		folder := filepath.Join(dir, "wire-"+service)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, nil, err
		}
		listener, err := new(net.ListenConfig).Listen(ctx, "unix", filepath.Join(folder, filepath.Base(socket)))
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		listeners = append(listeners, listener)
		t.services[service] = &asked{prepared: map[string]string{}}
		u, err := url.Parse(database)
		if err != nil {
			closeAll()
			return nil, nil, errors.New("the database URL cannot be parsed") // the cause quotes it
		}
		query := u.Query()
		query.Set("host", folder)
		u.RawQuery = query.Encode()
		urls[service] = u.String()
		go t.accept(ctx, listener, socket, service, t.services[service])
	}
	return urls, closeAll, nil
}

func (t *tape) accept(ctx context.Context, listener net.Listener, socket, service string, a *asked) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			_ = client.Close()
			continue
		}
		w := &wire{tape: t, asked: a, unit: unit{service: service}}
		pass := func(from, to net.Conn, see func(kind byte, frame []byte), greeting bool) {
			_ = relay(from, to, see, greeting) // it ends when either side hangs up
			_ = errors.Join(from.Close(), to.Close())
		}
		go pass(client, server, w.asks, true)
		go pass(server, client, w.answers, false)
	}
}

// relay passes frames of PostgreSQL's protocol on; the first that a client sends has no kind.
func relay(from io.Reader, to io.Writer, see func(kind byte, frame []byte), greeting bool) error {
	reader := bufio.NewReaderSize(from, 1<<16)
	writer := bufio.NewWriterSize(to, 1<<16)
	for {
		frame, err := readFrame(reader, greeting)
		if err != nil {
			return err
		}
		if !greeting {
			see(frame[0], frame)
		}
		greeting = false
		if _, err := writer.Write(frame); err != nil {
			return err
		}
		if reader.Buffered() == 0 {
			if err := writer.Flush(); err != nil {
				return err
			}
		}
	}
}

// maxFrame bounds what a frame may claim to be.
const maxFrame = 16 << 20

func readFrame(reader *bufio.Reader, greeting bool) ([]byte, error) {
	head := 5
	if greeting {
		head = 4
	}
	start, err := reader.Peek(head)
	if err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(start[head-4:])) + head - 4
	if size < head || size > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes", size)
	}
	frame := make([]byte, size)
	_, err = io.ReadFull(reader, frame)
	return frame, err
}

// wire is one connection.
type wire struct {
	tape    *tape
	asked   *asked
	unit    unit
	asking  bool // what was sent has a statement, and does not only prepare one, which a warm connection has done
	waiting int  // answers that are still to come
	open    bool // something was sent that no answer was waited for yet
}

// asks sees what the service sends.
func (w *wire) asks(kind byte, frame []byte) {
	w.tape.mu.Lock()
	defer w.tape.mu.Unlock()
	w.open = true
	switch kind {
	case 'P': // kept from the beginning: warm connections prepare nothing
		name, rest := cutName(frame[5:])
		sql, _ := cutName(rest)
		w.asked.prepared[name] = sql
	case 'B':
		_, rest := cutName(frame[5:])
		name, rest := cutName(rest)
		w.unit.statements = append(w.unit.statements, bound{sql: w.asked.prepared[name], parameters: parametersOf(rest)})
	case 'E', 'Q':
		if kind == 'Q' && bytes.Contains(frame, []byte("-- ping")) {
			break // the pool, or the watch over the server, asks whether it is alive: no step does
		}
		w.asking = true
		if w.tape.running {
			w.asked.statements++
		}
		if kind == 'Q' {
			sql, _ := cutName(frame[5:])
			w.unit.statements = append(w.unit.statements, bound{sql: sql})
		}
	}
	if kind == 'S' || kind == 'Q' { // what is answered by "ready"
		if w.tape.running && w.asking {
			w.asked.trips++
		}
		w.asking, w.open = false, false
		w.waiting++
	}
}

// answers sees what the server sends; a unit ends when it is ready and in no transaction.
func (w *wire) answers(kind byte, frame []byte) {
	if kind != 'Z' {
		return
	}
	w.tape.mu.Lock()
	defer w.tape.mu.Unlock()
	w.waiting--
	if frame[5] != 'I' || w.waiting > 0 || w.open {
		return
	}
	if w.tape.running && len(w.unit.statements) > 0 {
		w.asked.units++
		w.tape.units = append(w.tape.units, w.unit)
	}
	w.unit = unit{service: w.unit.service}
}

// parametersOf are those of a Bind, from behind its names.
func parametersOf(rest []byte) []parameter {
	number := func() int {
		if len(rest) < 2 {
			return 0
		}
		n := int(binary.BigEndian.Uint16(rest))
		rest = rest[2:]
		return n
	}
	var formats []bool
	for range number() {
		formats = append(formats, number() == 1)
	}
	parameters := make([]parameter, number())
	for i := range parameters {
		if len(rest) < 4 {
			return nil
		}
		size := int(int32(binary.BigEndian.Uint32(rest))) //nolint:gosec // -1 is null
		rest = rest[4:]
		if size > len(rest) {
			return nil
		}
		p := parameter{binary: len(formats) == 1 && formats[0] || i < len(formats) && formats[i]}
		if size >= 0 {
			p.bytes, rest = bytes.Clone(rest[:size]), rest[size:]
		}
		parameters[i] = p
	}
	return parameters
}

// cutName cuts the text that payload begins with.
func cutName(payload []byte) (name string, rest []byte) {
	text, rest, _ := bytes.Cut(payload, []byte{0})
	return string(text), rest
}
