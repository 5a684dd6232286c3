package erasure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Export is everything that both services keep about a person, as one JSON object, which goes to the person: of others
// only the role stays. ErrNoProfile, ErrTooLarge.
func (s *Service) Export(ctx context.Context, orgID, profileID string) (map[string]json.RawMessage, error) {
	p, err := s.Store.Person(ctx, orgID, profileID)
	if err != nil {
		return nil, err
	}
	ours, err := s.Store.Export(ctx, orgID, profileID)
	if err != nil {
		return nil, err
	}
	theirs, err := s.Carrier.ExportPerson(ctx, p)
	if err != nil {
		return nil, err
	}
	if ours, err = withoutStaff(ours); err != nil {
		return nil, err
	}
	if theirs, err = withoutStaff(theirs); err != nil {
		return nil, err
	}
	at, err := json.Marshal(s.Now().UTC())
	return map[string]json.RawMessage{"exported_at": at, "onboarding": ours, "messaging": theirs}, err
}

// withoutStaff takes out of the rows of an export who else than the person has caused them: names and addresses of operators are not the
// person's. Of the ledger of consent, which is an object, the rows are one level below.
func withoutStaff(document json.RawMessage) (json.RawMessage, error) {
	if document == nil {
		return nil, nil
	}
	var kinds map[string]any
	read := json.NewDecoder(bytes.NewReader(document))
	read.UseNumber() // the numbers stay as they are
	if err := read.Decode(&kinds); err != nil {
		return nil, fmt.Errorf("read an export: %w", err)
	}
	for _, kind := range kinds {
		roleOnly(kind, true)
	}
	return json.Marshal(kinds)
}

func roleOnly(of any, inner bool) {
	switch of := of.(type) {
	case []any:
		for _, row := range of {
			if row, ok := row.(map[string]any); ok {
				rowRoleOnly(row)
			}
		}
	case map[string]any:
		for _, rows := range of {
			if inner {
				roleOnly(rows, false)
			}
		}
	}
}

// rowRoleOnly knows an actor by the names of its columns: an object, or role:subject, or of a row of the audit the columns themselves.
func rowRoleOnly(row map[string]any) {
	for _, column := range []string{"actor", "created_by"} {
		switch by := row[column].(type) {
		case map[string]any:
			if by["role"] != roleOfPeople {
				row[column] = map[string]any{"role": by["role"]}
			}
		case string:
			if role, _, named := strings.Cut(by, ":"); named && role != roleOfPeople && role != "device" {
				row[column] = role
			}
		}
	}
	if _, audited := row["client_address"]; audited && row["role"] != roleOfPeople {
		for _, column := range []string{"subject", "client_address", "request_id"} {
			delete(row, column)
		}
	}
}

// roleOfPeople is the role of callers who are users themselves, see platform/rpc.
const roleOfPeople = "user"
