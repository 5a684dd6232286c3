package senders

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

const (
	// fresh bounds the use of senders that were read: so long after a change the old credentials may be used.
	fresh = 3 * time.Second
	// mostKept bounds the organisations and accounts that a process remembers the senders of, and mostClients its clients.
	mostKept    = 4096
	mostClients = 1024
)

// Config configures a Directory.
type Config struct {
	Store       *Store        // nil where there is the sender of the environment alone
	Keyset      *Keyset       // nil where no sender is stored
	Environment Sender        // that of the environment; its From may be empty
	APIURL      string        // empty for Twilio's own
	Timeout     time.Duration // of one call to Twilio
	Now         func() time.Time
	Transport   http.RoundTripper // the connections that all clients share
}

// Directory knows the senders of every organisation and the clients of their accounts. It is safe for concurrent use.
type Directory struct {
	Config

	mu      sync.Mutex
	known   map[string]known // by what was asked for
	clients map[uuid.UUID]client
}

// known are the rows of an organisation, as they were read.
type known struct {
	rows []stored
	at   time.Time
}

// client is the Twilio client of one version of a sender.
type client struct {
	version int64
	*twilio.Client
}

// New makes a Directory.
func New(cfg Config) *Directory {
	return &Directory{Config: cfg, known: map[string]known{}, clients: map[uuid.UUID]client{}}
}

// rows are an organisation's, oldest first, as they were at most a few seconds ago.
func (d *Directory) rows(ctx context.Context, orgID uuid.UUID) ([]stored, error) {
	return d.remembered(orgID.String(), func() ([]stored, error) { return d.Store.of(ctx, orgID) })
}

// remembered reads rows, unless they were read just now under the same key.
func (d *Directory) remembered(key string, load func() ([]stored, error)) ([]stored, error) {
	if d.Store == nil {
		return nil, nil
	}
	now := d.Now()
	d.mu.Lock()
	k, ok := d.known[key]
	d.mu.Unlock()
	if age := now.Sub(k.at); ok && age >= 0 && age < fresh {
		return k.rows, nil
	}
	rows, err := load()
	if err != nil {
		return nil, fmt.Errorf("read the senders: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= mostKept {
		clear(d.known)
	}
	d.known[key] = known{rows: rows, at: now}
	return rows, nil
}

// forget has the next question about a sender read anew.
func (d *Directory) forget(s Sender) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, s.OrgID.String())
	delete(d.known, s.AccountSID)
}

// Of returns the senders of an organisation, oldest first: that of the environment, and all that are stored, also those that do not send.
func (d *Directory) Of(ctx context.Context, orgID uuid.UUID) ([]Sender, error) {
	rows, err := d.rows(ctx, orgID)
	if err != nil {
		return nil, err
	}
	var all []Sender
	if d.Environment.From() != "" && d.Environment.OrgID == orgID {
		all = append(all, d.Environment)
	}
	for _, row := range rows {
		all = append(all, row.Sender)
	}
	return all, nil
}

// Active returns the active ones; ErrNoSender when there is none.
func (d *Directory) Active(ctx context.Context, orgID uuid.UUID) ([]Sender, error) {
	all, err := d.Of(ctx, orgID)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(s Sender) bool { return s.Status != Active || !s.DeletedAt.IsZero() })
	if len(all) == 0 {
		return nil, ErrNoSender
	}
	return all, nil
}

// For chooses the sender of a message to a person; an empty phone is anybody. ErrNoSender.
func (d *Directory) For(ctx context.Context, orgID uuid.UUID, phone, country string) (Sender, error) {
	active, err := d.Active(ctx, orgID)
	if err != nil {
		return Sender{}, err
	}
	var heard []uuid.UUID
	if len(active) > 1 && phone != "" {
		known, err := d.Store.heard(ctx, orgID, phone)
		if err != nil {
			return Sender{}, fmt.Errorf("find the sender that a person knows: %w", err)
		}
		heard = inOrder(known)
	}
	return choose(active, heard, country)
}

// ErrGone is about a message that was sent with a sender that is deleted.
var ErrGone = errors.New("the sender of this message was deleted, and its credentials with it: Twilio cannot be asked")

// Client returns the client of a stored sender's account, which sends as that sender. A disabled one still has it.
func (d *Directory) Client(ctx context.Context, orgID, id uuid.UUID) (*twilio.Client, error) {
	rows, err := d.rows(ctx, orgID)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(rows, func(s stored) bool { return s.ID == id })
	if i < 0 || rows[i].sealed.APIKeySecret == nil {
		return nil, ErrGone
	}
	return d.client(rows[i])
}

func (d *Directory) client(row stored) (*twilio.Client, error) {
	d.mu.Lock()
	c, ok := d.clients[row.ID]
	d.mu.Unlock()
	if ok && c.version == row.Version {
		return c.Client, nil
	}
	secrets, err := d.Keyset.openAll(row.OrgID, row.ID, row.sealed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sms.ErrUnavailable, err)
	}
	made, err := d.dial(row.Sender, row.APIKeySID, secrets.APIKeySecret)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.clients) >= mostClients {
		clear(d.clients) // they share their connections: a new one costs its struct
	}
	d.clients[row.ID] = client{version: row.Version, Client: made}
	return made, nil
}

// dial makes a client with an API key, or with an auth token where no key is named.
func (d *Directory) dial(s Sender, keySID, secret string) (*twilio.Client, error) {
	cfg := twilio.Config{
		AccountSID: s.AccountSID, APIKeySID: keySID, AuthToken: secret, APIURL: d.APIURL, MessagingServiceSID: s.ServiceSID,
		Timeout: d.Timeout, Transport: d.Transport,
	}
	if s.ServiceSID == "" {
		cfg.FromNumber = s.Number
	}
	return twilio.New(cfg)
}

// account are all senders of an account, deleted ones included; empty is the account of the environment.
func (d *Directory) account(ctx context.Context, accountSID string) ([]Sender, error) {
	if accountSID == "" {
		accountSID = d.Environment.AccountSID
	}
	rows, err := d.remembered(accountSID, func() ([]stored, error) { return d.Store.ofAccount(ctx, accountSID) })
	if err != nil {
		return nil, err
	}
	var all []Sender
	if d.Environment.From() != "" && accountSID == d.Environment.AccountSID {
		all = append(all, d.Environment)
	}
	for _, row := range rows {
		all = append(all, row.Sender)
	}
	return all, nil
}

// Owner returns the sender of an account that a message to a number, or through a messaging service, is to; ErrUnknownSender. A number
// counts before a messaging service. An empty account is that of the environment.
func (d *Directory) Owner(ctx context.Context, accountSID, number, serviceSID string) (Sender, error) {
	if d.Environment.has(number, serviceSID) && (accountSID == "" || accountSID == d.Environment.AccountSID) {
		return d.Environment, nil
	}
	all, err := d.account(ctx, accountSID)
	if err != nil {
		return Sender{}, err
	}
	for _, place := range [2][2]string{{number, ""}, {"", serviceSID}} {
		if i := slices.IndexFunc(all, func(s Sender) bool { return s.has(place[0], place[1]) }); i >= 0 {
			return all[i], nil
		}
	}
	return Sender{}, ErrUnknownSender
}

// Sent returns the sender of an account that has sent a message, also one that is deleted; ErrUnknownSender.
func (d *Directory) Sent(ctx context.Context, accountSID, number, serviceSID string) (Sender, error) {
	from, err := d.Owner(ctx, accountSID, number, serviceSID)
	if !errors.Is(err, ErrUnknownSender) {
		return from, err
	}
	all, err := d.account(ctx, accountSID)
	if err != nil {
		return Sender{}, err
	}
	i := slices.IndexFunc(all, func(s Sender) bool {
		s.DeletedAt = time.Time{}
		return s.has(number, "") || s.has("", serviceSID)
	})
	if i < 0 {
		return Sender{}, ErrUnknownSender
	}
	return all[i], nil
}

// Mates are the ids of all senders of the account of a sender: what Twilio lists of one, it lists of all. Only the environment's own where
// no sender is stored.
func (d *Directory) Mates(ctx context.Context, orgID, id uuid.UUID) ([]uuid.UUID, error) {
	accountSID := d.Environment.AccountSID
	if id != uuid.Nil {
		rows, err := d.rows(ctx, orgID)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(rows, func(s stored) bool { return s.ID == id })
		if i < 0 {
			return []uuid.UUID{id}, nil
		}
		accountSID = rows[i].AccountSID
	}
	return d.InAccount(ctx, accountSID)
}

// InAccount are the ids of all senders of an account; uuid.Nil is the environment's.
func (d *Directory) InAccount(ctx context.Context, accountSID string) ([]uuid.UUID, error) {
	all, err := d.account(ctx, accountSID)
	ids := make([]uuid.UUID, len(all))
	for i, s := range all {
		ids[i] = s.ID
	}
	return ids, err
}

// Organisations returns which organisations have a sender, or had one that may still be written to.
func (d *Directory) Organisations(ctx context.Context) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	if d.Store != nil {
		found, err := d.Store.organisations(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the organisations with a sender: %w", err)
		}
		ids = found
	}
	if env := d.Environment; env.From() != "" && !slices.Contains(ids, env.OrgID) {
		ids = append([]uuid.UUID{env.OrgID}, ids...)
	}
	return ids, nil
}

// Opens reports why a stored credential cannot be opened; nil when all can, and when none is stored.
func (d *Directory) Opens(ctx context.Context) error {
	return d.Store.each(ctx, func(row stored) error {
		_, err := d.Keyset.openAll(row.OrgID, row.ID, row.sealed)
		return err
	})
}

// Reseal seals all credentials with the keyset's primary key, and reports how many senders have some.
func (d *Directory) Reseal(ctx context.Context) (n int, err error) {
	err = d.Store.each(ctx, func(row stored) error {
		secrets, err := d.Keyset.openAll(row.OrgID, row.ID, row.sealed)
		if err != nil {
			return err
		}
		if row.sealed, err = d.Keyset.sealAll(row.OrgID, row.ID, secrets); err != nil {
			return err
		}
		n++
		return d.Store.reseal(ctx, row)
	})
	return n, err
}
