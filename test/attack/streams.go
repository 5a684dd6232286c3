package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"paceline.internal/platform/process"
)

// Streams opens gRPC streams without a token, sends one large message on each, and never says that it was the last.
type Streams struct {
	Target   string // host:port of a service, in plain text
	Method   string // "/package.Service/Method" of a unary call
	Streams  int
	Bytes    int
	Duration time.Duration
	// Memory returns the memory that the service holds, in bytes; it is asked before, and until the time is over.
	Memory func(ctx context.Context) (float64, error)
}

// StreamsReport is the result.
type StreamsReport struct {
	Streams  int            `json:"streams"`
	Bytes    int            `json:"bytes"`
	BeforeMB float64        `json:"before_mb"`
	MostMB   float64        `json:"most_mb"`
	Ended    map[string]int `json:"ended"` // by their status; those that were still open count as held
}

const memoryPause = 100 * time.Millisecond

// Run attacks until the time is over.
func (s Streams) Run(ctx context.Context) (report StreamsReport, err error) {
	if err := onlyHere(s.Target); err != nil {
		return StreamsReport{}, err
	}
	if s.Streams < 1 || s.Bytes < 1 || s.Duration <= 0 {
		return StreamsReport{}, errors.New("--streams, --bytes and --duration must be above zero")
	}
	conn, err := grpc.NewClient(s.Target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return StreamsReport{}, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	before, err := s.Memory(ctx)
	if err != nil {
		return StreamsReport{}, err
	}
	attack, cancel := context.WithTimeout(ctx, s.Duration)
	defer cancel()
	var (
		streams sync.WaitGroup
		ended   tally
	)
	message, err := proto.Marshal(wrapperspb.String(strings.Repeat("x", s.Bytes))) // the first field of most requests is text
	if err != nil {
		return StreamsReport{}, err
	}
	for range s.Streams {
		streams.Go(func() { ended.add(s.hold(attack, conn, message)) })
	}
	most := before
	for process.RestOnMachineClock(attack, memoryPause, nil) {
		held, err := s.Memory(ctx)
		if err != nil {
			return StreamsReport{}, errors.Join(err, ctx.Err())
		}
		most = max(most, held)
	}
	streams.Wait()
	return StreamsReport{Streams: s.Streams, Bytes: s.Bytes, BeforeMB: before / (1 << 20), MostMB: most / (1 << 20), Ended: ended.counts}, nil
}

// hold is one stream, until it is ended or the time is over.
func (s Streams) hold(ctx context.Context, conn *grpc.ClientConn, message []byte) string {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, s.Method, grpc.ForceCodecV2(encoded{}))
	if err == nil {
		if err = stream.SendMsg(message); err == nil || errors.Is(err, io.EOF) { // ended: the answer says why
			err = stream.RecvMsg(nil)
		}
	}
	if ctx.Err() != nil && status.Code(err) == codes.DeadlineExceeded {
		return "held to the end"
	}
	return status.Code(err).String()
}

// encoded sends what is encoded already: one message for all streams, so that the attacker's own memory is not what a test
// measures.
type encoded struct{}

func (encoded) Marshal(message any) (mem.BufferSlice, error) {
	bytes, ok := message.([]byte)
	if !ok {
		return nil, fmt.Errorf("a %T is not encoded", message)
	}
	return mem.BufferSlice{mem.SliceBuffer(bytes)}, nil
}

func (encoded) Unmarshal(mem.BufferSlice, any) error { return nil } // no answer matters but its status

func (encoded) Name() string { return "proto" }
