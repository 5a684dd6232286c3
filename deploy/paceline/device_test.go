package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"paceline.internal/deploy/device"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	aDevice = "01900000-0000-7000-8000-0000000000d1"
	runA    = "01900000-0000-7000-8000-0000000000a1"
	runB    = "01900000-0000-7000-8000-0000000000a2"
)

// gatewayOf is a gateway that takes one connection of the device after the other.
type gatewayOf struct {
	url   string
	conns chan *websocket.Conn
}

func newGateway(t *testing.T) *gatewayOf {
	t.Helper()
	g := &gatewayOf{conns: make(chan *websocket.Conn)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer pld_right" || r.URL.Path != "/v1/devices/"+aDevice+"/connect" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		select {
		case g.conns <- conn:
		case <-t.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

// gets is the next frame of the device that is no sign of life.
func gets(t *testing.T, conn *websocket.Conn) *onboardingv1.ConnectDeviceRequest {
	t.Helper()
	for {
		_, body, err := conn.Read(t.Context())
		require.NoError(t, err)
		frame := new(onboardingv1.ConnectDeviceRequest)
		require.NoError(t, protojson.Unmarshal(body, frame))
		if frame.GetProgress() == nil {
			return frame
		}
	}
}

func tells(t *testing.T, conn *websocket.Conn, frame string) {
	t.Helper()
	require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(frame)))
}

// welcomes takes the next connection and its hello.
func (g *gatewayOf) welcomes(t *testing.T, runs string) *websocket.Conn {
	t.Helper()
	conn := <-g.conns
	hello := gets(t, conn).GetHello()
	require.NotNil(t, hello)
	require.Empty(t, hello.GetToken()+hello.GetDeviceId())
	tells(t, conn, `{"welcome":{"epoch":"1","runs":[`+runs+`],"run_lease_seconds":"60"}}`)
	return conn
}

func offer(run string) string {
	return `{"offer":{"run_id":"` + run + `","goal_id":"g1","goal":"open the door","scheduled_for":"2026-03-04T12:00:00Z","configuration":{"room":"7"}}}`
}

// playing is the command while it runs.
type playing struct {
	cancel context.CancelFunc
	ended  chan error
}

func (p playing) stop() error {
	p.cancel()
	return <-p.ended
}

// deviceOf runs the command, in its own folder, with a program that notes that it was run before it does as script says.
func deviceOf(t *testing.T, g *gatewayOf, dir, script string, args ...string) playing {
	t.Helper()
	program := filepath.Join(dir, "run-goal")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$PACELINE_RUN_ID\" >> '"+dir+"/begun'\n"+script+"\n"), 0o700))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, append([]string{
			"device", "--url", g.url, "--device", aDevice, "--exec", program, "--state", filepath.Join(dir, "state.json"),
		}, args...), terminal{out: io.Discard, environ: map[string]string{device.TokenVariable: "pld_right"}})
	}()
	return playing{cancel, ended}
}

func begun(t *testing.T, dir string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "begun"))
	require.NoError(t, err)
	return strings.Fields(string(content))
}

func TestDeviceRunsACommandPerGoalOnce(t *testing.T) {
	t.Setenv(device.TokenVariable, "pld_right") // which the command must not get
	g, dir := newGateway(t), t.TempDir()
	d := deviceOf(t, g, dir, `echo noise; echo "$(cat) in $PACELINE_CONFIGURATION for $PACELINE_GOAL_ID at $PACELINE_SCHEDULED_FOR$PACELINE_DEVICE_TOKEN"`)
	conn := g.welcomes(t, "")
	tells(t, conn, offer(runA))
	require.Equal(t, runA, gets(t, conn).GetAcknowledge().GetRunId())
	end := gets(t, conn).GetEnd()
	require.True(t, end.GetOk())
	require.Equal(t, `open the door in {"room":"7"} for g1 at 2026-03-04T12:00:00Z`, end.GetDetail())

	tells(t, conn, offer(runA)) // the end was lost on its way
	require.Equal(t, runA, gets(t, conn).GetAcknowledge().GetRunId())
	require.Equal(t, end.GetDetail(), gets(t, conn).GetEnd().GetDetail())
	require.Equal(t, []string{runA}, begun(t, dir))

	tells(t, conn, `{"reconnect":{"after_ms":"1"}}`)
	require.NoError(t, conn.Close(websocket.StatusServiceRestart, ""))
	conn = g.welcomes(t, `"`+runA+`","`+runB+`"`)
	require.Equal(t, "ended", gets(t, conn).GetReport().GetState())
	require.Equal(t, "never_saw", gets(t, conn).GetReport().GetState())
	go func() { _, _, _ = conn.Read(context.Background()) }() // its close frame
	require.NoError(t, d.stop())
}

func TestDeviceStopsARun(t *testing.T) {
	t.Parallel()
	g, dir := newGateway(t), t.TempDir()
	d := deviceOf(t, g, dir, `sleep 600 & trap 'kill $!; echo closed' TERM; echo > '`+dir+`/trapped'; wait; exit 3`)
	conn := g.welcomes(t, "")
	tells(t, conn, offer(runA))
	require.Equal(t, runA, gets(t, conn).GetAcknowledge().GetRunId())

	require.NoError(t, conn.CloseNow()) // the run outlives the connection
	conn = g.welcomes(t, `"`+runA+`"`)
	require.Equal(t, "started", gets(t, conn).GetReport().GetState())
	require.Eventually(t, func() bool { _, err := os.Stat(dir + "/trapped"); return err == nil }, 10*time.Second, 10*time.Millisecond)
	tells(t, conn, `{"stop":{"run_id":"`+runA+`"}}`)
	end := gets(t, conn).GetEnd()
	require.False(t, end.GetOk())
	require.Equal(t, "it was stopped", end.GetDetail())
	require.Equal(t, []string{runA}, begun(t, dir))
	go func() { _, _, _ = conn.Read(context.Background()) }() // its close frame
	require.NoError(t, d.stop())
}

func TestDeviceSaysGoals(t *testing.T) {
	t.Parallel()
	g, dir := newGateway(t), t.TempDir()
	d := deviceOf(t, g, dir, "", "--say", "in 5 minutes open the door")
	conn := g.welcomes(t, "")
	first := gets(t, conn).GetGoal()
	require.Equal(t, "in 5 minutes open the door", first.GetGoal())
	require.NoError(t, conn.CloseNow())
	conn = g.welcomes(t, "")
	again := gets(t, conn).GetGoal()
	require.Equal(t, first.GetKey(), again.GetKey(), "it was not answered, so it is said again, by the same key")
	tells(t, conn, `{"goal":{"key":"`+again.GetKey()+`","reason":"TIME_UNCLEAR","message":"when?"}}`)
	go func() { _, _, _ = conn.Read(context.Background()) }() // its close frame
	require.NoError(t, d.stop())
}

func TestDeviceThatIsNotWantedGivesUp(t *testing.T) {
	t.Parallel()
	for _, code := range []websocket.StatusCode{4401, 4409} {
		g := newGateway(t)
		d := deviceOf(t, g, t.TempDir(), "")
		t.Cleanup(d.cancel)
		conn := g.welcomes(t, "")
		require.NoError(t, conn.Close(code, "no"))
		require.ErrorContains(t, <-d.ended, "does not want this device")
	}
}
