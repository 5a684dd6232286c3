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
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"paceline.internal/test/stack"
)

// tape is what the services sent to their databases: how much, and byte for byte, so that it can be replayed without them.
type tape struct {
	mu       sync.Mutex
	running  bool
	order    int
	steps    int // that were done while it ran
	services map[string]*asked
}

// asked is what one service asked of its database.
type asked struct {
	statements, trips int
	prepared          map[string][]byte // statements by their names, which all connections have alike
	units             []unit
	conns             int
}

// unit is a transaction, or what is one by itself: what was sent before each answer, and the ids that were in it.
type unit struct {
	order int
	trips [][]byte
	ids   []uuid.UUID
}

func newTape() *tape { return &tape{services: map[string]*asked{}} }

func (t *tape) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = true
}

func (t *tape) stop(steps int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running, t.steps = false, steps
}

// cost is what a step cost a service.
func (t *tape) cost(service string) StepCost {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, n := t.services[service], t.steps
	return StepCost{
		Statements: float64(a.statements) / float64(n), RoundTrips: float64(a.trips) / float64(n),
		Transactions: float64(len(a.units)) / float64(n),
	}
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
		t.services[service] = &asked{prepared: map[string][]byte{}}
		u, err := url.Parse(database)
		if err != nil {
			closeAll()
			return nil, nil, errors.New("the database URL cannot be parsed") // the cause quotes it
		}
		query := u.Query()
		query.Set("host", folder)
		u.RawQuery = query.Encode()
		urls[service] = u.String()
		go t.accept(ctx, listener, socket, t.services[service])
	}
	return urls, closeAll, nil
}

func (t *tape) accept(ctx context.Context, listener net.Listener, socket string, a *asked) {
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
		w := &wire{tape: t, asked: a}
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
	counted bool
	unit    unit
	trip    []byte
	asking  bool // the trip has a statement, and does not only prepare one, which a warm connection has done
	waiting int  // answers that are still to come
}

// asks sees what the service sends.
func (w *wire) asks(kind byte, frame []byte) {
	w.tape.mu.Lock()
	defer w.tape.mu.Unlock()
	if kind == 'P' { // kept from the beginning: warm connections prepare nothing
		if name, _ := cutName(frame[5:]); name != "" {
			w.asked.prepared[name] = frame
			return
		}
	}
	if len(w.unit.trips) == 0 && len(w.trip) == 0 {
		w.unit.order = w.tape.order
		w.tape.order++
	}
	if kind == 'B' {
		w.unit.ids = append(w.unit.ids, idsOf(frame)...)
	}
	w.trip = append(w.trip, frame...)
	if kind == 'E' || kind == 'Q' {
		w.asking = true
		if w.tape.running {
			w.asked.statements++
		}
	}
	if kind == 'S' || kind == 'Q' { // what is answered by "ready"
		if w.tape.running && w.asking {
			w.asked.trips++
		}
		w.asking = false
		w.waiting++
		w.unit.trips = append(w.unit.trips, w.trip)
		w.trip = nil
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
	if frame[5] != 'I' || w.waiting > 0 || len(w.trip) > 0 {
		return
	}
	if w.tape.running && len(w.unit.trips) > 0 {
		w.asked.units = append(w.asked.units, w.unit)
		if !w.counted {
			w.counted = true
			w.asked.conns++
		}
	}
	w.unit = unit{}
}

// chains are the units of a service in their order, those of one step together: they name a session, a message or an alarm that another
// one of them names too. The organisation does not count: all of them name it.
func chains(units []unit) [][]unit {
	slices.SortFunc(units, func(x, y unit) int { return x.order - y.order })
	of := map[uuid.UUID]int{uuid.MustParse(stack.OrgID): -1}
	var all [][]unit
	for _, u := range units {
		at := -1
		for _, id := range u.ids {
			if known, ok := of[id]; ok && known >= 0 {
				at = known
			}
		}
		if at < 0 {
			at = len(all)
			all = append(all, nil)
		}
		all[at] = append(all[at], u)
		for _, id := range u.ids {
			if _, ok := of[id]; !ok {
				of[id] = at
			}
		}
	}
	return all
}

// idsOf are the UUIDs among the parameters of a Bind, in either of their forms.
func idsOf(bind []byte) (ids []uuid.UUID) {
	_, rest := cutName(bind[5:])
	_, rest = cutName(rest)
	count := func(size int) int { // of things of a size, which are left out
		if len(rest) < 2 {
			return 0
		}
		n := int(binary.BigEndian.Uint16(rest))
		rest = rest[min(len(rest), 2+n*size):]
		return n
	}
	count(2) // the formats
	for range count(0) {
		if len(rest) < 4 {
			return ids
		}
		size := int(int32(binary.BigEndian.Uint32(rest))) //nolint:gosec // -1 is null
		rest = rest[4:]
		if size > len(rest) {
			return ids
		}
		var id uuid.UUID
		var err error
		switch size {
		case 16:
			id, err = uuid.FromBytes(rest[:size])
		case 36:
			id, err = uuid.ParseBytes(rest[:size])
		default:
			err = errors.New("is no id")
		}
		if err == nil && id.Variant() == uuid.RFC4122 { // which no string of sixteen letters has
			ids = append(ids, id)
		}
		rest = rest[max(0, size):]
	}
	return ids
}

// cutName cuts the text that payload begins with.
func cutName(payload []byte) (name string, rest []byte) {
	text, rest, _ := bytes.Cut(payload, []byte{0})
	return string(text), rest
}

// Replay is what the databases did alone with what was recorded.
type Replay struct {
	Rate  float64 `json:"rate"`  // steps a second
	Alike float64 `json:"alike"` // the share of the steps that had the same effect
}

// replay asks both databases, at once and over as many connections as the services had, what was asked of them when the tape was
// recorded. No service decides anything and no vendor is called: so this is the rate that the database allows.
func (t *tape) replay(ctx context.Context, urls map[string]string, now func() time.Time) (Replay, error) {
	var players []*player
	defer func() {
		for _, p := range players {
			_ = p.conn.Close()
		}
	}()
	for service, a := range t.services {
		all := chains(a.units)
		todo := make(chan []unit, len(all))
		for _, chain := range all {
			todo <- chain
		}
		close(todo)
		for range a.conns {
			p, err := openPlayer(ctx, urls[service], a.prepared, todo)
			if err != nil {
				return Replay{}, err
			}
			players = append(players, p)
		}
	}
	began := now()
	var group errgroup.Group
	for _, p := range players {
		group.Go(p.play)
	}
	if err := group.Wait(); err != nil {
		return Replay{}, err
	}
	elapsed := now().Sub(began)
	var accepted, moved int
	if err := errors.Join(
		queryRow(ctx, urls["messaging"], `select count(twilio_sid) from sms_messages`, &accepted),
		queryRow(ctx, urls["onboarding"], sqlMoved, &moved),
	); err != nil {
		return Replay{}, err
	}
	return Replay{Rate: float64(t.steps) / elapsed.Seconds(), Alike: float64(min(accepted, moved)) / float64(t.steps)}, nil
}

// player is a connection that replays what it is given.
type player struct {
	conn   net.Conn
	reader *bufio.Reader
	todo   <-chan []unit
}

func openPlayer(ctx context.Context, database string, prepared map[string][]byte, todo <-chan []unit) (*player, error) {
	conn, err := pgconn.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	hijacked, err := conn.Hijack()
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	p := &player{conn: hijacked.Conn, reader: bufio.NewReaderSize(hijacked.Conn, 1<<16), todo: todo}
	for _, parse := range prepared {
		if err := p.say(append(slices.Clip(parse), 'S', 0, 0, 0, 4)); err != nil {
			return nil, errors.Join(err, p.conn.Close())
		}
	}
	return p, nil
}

func (p *player) play() error {
	for chain := range p.todo {
		for _, u := range chain {
			for _, trip := range u.trips {
				if err := p.say(trip); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// say sends, and waits until the server is ready for more. The answer is ignored.
func (p *player) say(trip []byte) error {
	if _, err := p.conn.Write(trip); err != nil {
		return err
	}
	for {
		frame, err := readFrame(p.reader, false)
		if err != nil {
			return err
		}
		if frame[0] == 'Z' {
			return nil
		}
	}
}
