package goals

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"paceline.internal/platform/letters"
)

const (
	// MaxDevices bounds the stream devices of one person.
	MaxDevices = 20
	// MaxConfiguration bounds what a device gets with each goal, in bytes.
	MaxConfiguration = 4 << 10

	maxDeviceName = 60
	// tokenPrefix begins every device's token, so that whoever finds one recognises it.
	tokenPrefix = "pld_"
	tokenBytes  = 32
)

// Devices registers the devices that goals run on.
type Devices struct {
	Store   *Store
	Metrics *Metrics
	Now     func() time.Time
}

// Register makes a device known, and returns its token, which is kept only as a hash. ErrInvalid, ErrNoOwner, ErrExists.
func (d *Devices) Register(ctx context.Context, device Device) (registered Device, token string, err error) {
	device.Name = letters.Compose(device.Name)
	if err := device.check(); err != nil {
		return Device{}, "", err
	}
	device.ID, device.Kind, device.CreatedAt = newID(), Stream, d.Now()
	if len(device.Configuration) == 0 {
		device.Configuration = json.RawMessage("{}")
	}
	token, hash := newToken()
	if err := d.Store.RegisterDevice(ctx, device, hash); err != nil {
		return Device{}, "", err
	}
	return device, token, nil
}

// Rotate gives a device another token. The old one is void, and the stream that was opened with it ends. ErrNoDevice.
func (d *Devices) Rotate(ctx context.Context, c Caller, deviceID string) (device Device, token string, err error) {
	token, hash := newToken()
	if device, err = d.Store.RotateDevice(ctx, c, deviceID, hash, d.Now()); err != nil {
		return Device{}, "", err
	}
	return device, token, nil
}

// Remove deletes a device for good. ErrNoDevice.
func (d *Devices) Remove(ctx context.Context, c Caller, deviceID string) error {
	failed, err := d.Store.RemoveDevice(ctx, c, deviceID, d.Now())
	if err != nil {
		return err
	}
	d.Metrics.ended(ctx, Stream, ReasonRemoved, failed)
	return nil
}

// deviceError is ErrInvalid that names a device.
type deviceError struct{ problem string }

func (e *deviceError) Error() string { return "the device is not valid: " + e.problem }

func (e *deviceError) Unwrap() error { return ErrInvalid }

func invalidDevice(format string, args ...any) error {
	return &deviceError{problem: fmt.Sprintf(format, args...)}
}

func (d *Device) check() error {
	length := utf8.RuneCountInString(d.Name)
	switch {
	case length < 1 || length > maxDeviceName || !utf8.ValidString(d.Name) || strings.TrimSpace(d.Name) != d.Name ||
		strings.ContainsFunc(d.Name, unicode.IsControl):
		return invalidDevice("name must have 1 to %d characters", maxDeviceName)
	case d.Kind != Stream && d.Kind != "":
		return invalidDevice("kind must be stream; every person has a phone without registering it")
	case len(d.Configuration) > MaxConfiguration || bytes.Contains(d.Configuration, []byte(`\u0000`)):
		return invalidDevice("configuration must be at most %d bytes of JSON, without NUL", MaxConfiguration)
	}
	return nil
}

// newToken makes a token, and what is kept of it. It has as many random bits as its hash, so that a plain hash is as good as a slow one.
func newToken() (token string, hash []byte) {
	random := make([]byte, tokenBytes)
	_, _ = rand.Read(random) // never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(random)
	return token, hashToken(token)
}

func hashToken(token string) []byte {
	hash := sha256.Sum256([]byte(token))
	return hash[:]
}
