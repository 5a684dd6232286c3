package stack_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	"paceline.internal/services/messaging/senders"
)

// attack calls the methods of both services as callers of another organisation, and keeps what crossed.
type attack struct {
	b       *bundle
	loot    loot
	conns   map[string]*grpc.ClientConn // by the package of the service
	calls   int
	codes   map[codes.Code]int
	crossed []string
}

// TestCrossingRPC calls every method of onboarding and messaging past the gateway, as an operator, an app and a user of another
// organisation, with the ids, the idempotency keys and the page tokens of an organisation that has one of everything. The methods are those
// of the descriptors, so a new one is attacked as it comes.
func TestCrossingRPC(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	keyset, err := senders.NextKeyset("")
	require.NoError(t, err)
	b := setup(t, "SENDER_KEYSET", keyset)
	p := b.begin(t)
	b.queue(t, map[string]any{"to": p.phone, "purpose": "otp", "body": "Your code is 1234.", "idempotency_key": "theirs-1"})
	b.furnish(t, p)
	b.settles(t)
	a := &attack{b: b, loot: b.robbed(t, b.operatorOrg()), conns: map[string]*grpc.ClientConn{}, codes: map[codes.Code]int{}}
	for of, target := range map[protoreflect.FullName]string{
		"paceline.onboarding.v1": b.config.Addresses.Onboarding, "paceline.messaging.v1": b.config.Addresses.Messaging,
	} {
		conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		a.conns[string(of)] = conn
	}
	before := b.standing(t, b.operatorOrg())
	for _, mallory := range robbers(uuid.NewString(), a.loot) {
		for _, method := range a.methods() {
			for _, in := range a.requests(method) {
				a.call(t, mallory, method, in)
			}
			a.page(t, mallory, method)
		}
	}
	t.Logf("%d calls of %d methods with what is another organisation's: %v", a.calls, len(a.methods()), a.codes)
	require.Empty(t, a.crossed)
	require.Greater(t, a.codes[codes.OK], 60, "what is asked for is understood")
	require.Greater(t, a.codes[codes.NotFound], 200, "and not found")
	require.Equal(t, before, b.standing(t, b.operatorOrg()), "nothing there has changed")
}

// theirCalls matches an entry of the audit of the other's operator.
var theirCalls = regexp.MustCompile(`"subject":\s*"operator"`)

// methods are all of both services.
func (a *attack) methods() (all []protoreflect.MethodDescriptor) {
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if a.conns[string(file.Package())] == nil {
			return true
		}
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				all = append(all, methods.Get(j))
			}
		}
		return true
	})
	return all
}

// requests are made from the loot: of a field with no certain id, one request for each that it could be.
func (a *attack) requests(method protoreflect.MethodDescriptor) (all []proto.Message) {
	for _, guess := range slices.Concat(a.loot.rows(), a.loot.ids["idempotency_key"]) {
		in := dynamicpb.NewMessage(method.Input())
		guessed := a.fill(in, guess, 0)
		if all = append(all, in); !guessed {
			break
		}
	}
	// What only some fields of make sense: the ids alone.
	in := dynamicpb.NewMessage(method.Input())
	a.fillIDs(in)
	return append(all, in)
}

// fill sets every field, and reports whether an id is a guess.
func (a *attack) fill(m protoreflect.Message, guess string, depth int) (guessed bool) {
	if at, ok := m.Interface().(*dynamicpb.Message); ok && at.Descriptor().FullName() == "google.protobuf.Timestamp" {
		now := timestamppb.New(a.b.clock.Now().Add(time.Hour))
		m.Set(m.Descriptor().Fields().ByName("seconds"), protoreflect.ValueOfInt64(now.GetSeconds()))
		return false
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Name() == "page_token" || field.IsMap() {
			continue
		}
		if field.Kind() == protoreflect.MessageKind {
			if depth < 2 && !field.IsList() {
				guessed = a.fill(m.Mutable(field).Message(), guess, depth+1) || guessed
			}
			continue
		}
		value, isGuess := a.value(field, guess)
		guessed = guessed || isGuess
		if field.IsList() {
			m.Mutable(field).List().Append(value)
			continue
		}
		m.Set(field, value)
	}
	return guessed
}

// fillIDs sets the fields with a known id, and no other.
func (a *attack) fillIDs(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if id := a.loot.of(string(field.Name())); field.Kind() == protoreflect.StringKind && !field.IsList() && id != "" {
			m.Set(field, protoreflect.ValueOfString(id))
		}
	}
}

func (a *attack) value(field protoreflect.FieldDescriptor, guess string) (value protoreflect.Value, guessed bool) {
	switch field.Kind() {
	case protoreflect.StringKind:
		name := string(field.Name())
		id := a.loot.of(name)
		switch {
		case name == "idempotency_key":
			return protoreflect.ValueOfString(guess), true
		case id != "":
			return protoreflect.ValueOfString(id), false
		case strings.HasSuffix(name, "_id") || name == "id":
			return protoreflect.ValueOfString(guess), true
		}
		return protoreflect.ValueOfString("words"), false
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(`{}`)), false
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true), false
	case protoreflect.EnumKind:
		values := field.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(values.Len() - 1).Number()), false
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(1), false
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(1), false
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(1), false
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(1), false
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1), false
	default:
		return protoreflect.ValueOfInt32(1), false
	}
}

// page takes the second page of a list that the other organisation has begun, and pages behind places that are made up.
func (a *attack) page(t *testing.T, mallory rpc.Principal, method protoreflect.MethodDescriptor) {
	t.Helper()
	fields := method.Input().Fields()
	token, size := fields.ByName("page_token"), fields.ByName("page_size")
	next := method.Output().Fields().ByName("next_page_token")
	if token == nil || size == nil || next == nil || method.IsStreamingServer() {
		return
	}
	owner := rpc.Principal{Subject: "operator", OrgID: a.loot.orgID, Role: rpc.RoleOperator}
	for _, withIDs := range []bool{false, true} {
		in := dynamicpb.NewMessage(method.Input())
		in.Set(size, protoreflect.ValueOfInt32(1))
		if withIDs {
			a.fillIDs(in)
		}
		for _, cursor := range a.loot.cursors() {
			in.Set(token, protoreflect.ValueOfString(cursor))
			a.call(t, mallory, method, in)
		}
		in.Clear(token)
		out := dynamicpb.NewMessage(method.Output())
		if err := a.invoke(t, owner, method, in, out); err != nil || out.Get(next).String() == "" {
			continue
		}
		in.Set(token, out.Get(next))
		a.call(t, mallory, method, in)
	}
}

// call makes one call and looks for the other's in its answer.
func (a *attack) call(t *testing.T, mallory rpc.Principal, method protoreflect.MethodDescriptor, in proto.Message) {
	t.Helper()
	var answer string
	var err error
	if method.IsStreamingServer() || method.IsStreamingClient() {
		answer, err = a.stream(t, mallory, method, in)
	} else {
		out := dynamicpb.NewMessage(method.Output())
		err = a.invoke(t, mallory, method, in, out)
		answer = protojson.Format(out)
	}
	a.calls++
	a.codes[status.Code(err)]++
	asked := protojson.Format(in) + mallory.Subject
	leaked := a.loot.leaks(asked, answer+fmt.Sprint(err))
	if strings.HasSuffix(string(method.Name()), "Audit") { // it has what they asked for themselves, and by that alone ids of the other
		leaked = slices.DeleteFunc(leaked, func(secret string) bool { return uuid.Validate(secret) == nil })
		if theirCalls.MatchString(answer) {
			leaked = append(leaked, "a call of the other's operator")
		}
	}
	if len(leaked) > 0 {
		a.crossed = append(a.crossed, fmt.Sprintf("%s as %s: %v %v: %s -> %s", method.FullName(), mallory.Role, leaked, err, asked, answer))
	}
	if code := status.Code(err); slices.Contains([]codes.Code{codes.Unavailable, codes.Unknown}, code) {
		a.crossed = append(a.crossed, fmt.Sprintf("%s as %s is not answered: %v", method.FullName(), mallory.Role, err))
	}
}

func (a *attack) invoke(t *testing.T, as rpc.Principal, method protoreflect.MethodDescriptor, in, out proto.Message) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(a.b.as(t, as), patience)
	defer cancel()
	return a.conn(method).Invoke(ctx, pathOf(method), in, out)
}

// stream sends one message and reads until the stream ends, or has nothing more to say.
func (a *attack) stream(t *testing.T, as rpc.Principal, method protoreflect.MethodDescriptor, in proto.Message) (answer string, err error) {
	t.Helper()
	const quiet = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(a.b.as(t, as), quiet)
	defer cancel()
	stream, err := a.conn(method).NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, pathOf(method))
	if err == nil {
		err = stream.SendMsg(in)
	}
	for err == nil {
		out := dynamicpb.NewMessage(method.Output())
		if err = stream.RecvMsg(out); err == nil {
			answer += protojson.Format(out)
		}
	}
	if errors.Is(err, io.EOF) || status.Code(err) == codes.DeadlineExceeded {
		err = nil
	}
	return answer, err
}

func (a *attack) conn(method protoreflect.MethodDescriptor) *grpc.ClientConn {
	return a.conns[string(method.ParentFile().Package())]
}

func pathOf(method protoreflect.MethodDescriptor) string {
	return "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
}
