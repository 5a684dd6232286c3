package postgres

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// registerUUIDs has a connection write UUIDs as 16 bytes, whether they are strings or of github.com/google/uuid. pgx alone tries that,
// fails, and writes the whole array again as text.
func registerUUIDs(_ context.Context, conn *pgx.Conn) error {
	one := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}}
	conn.TypeMap().RegisterType(one)
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: &pgtype.ArrayCodec{ElementType: one}})
	return nil
}

type uuidCodec struct{ pgtype.UUIDCodec }

// PlanEncode implements pgtype.Codec.
func (c uuidCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case string:
			return uuidOfText{}
		case uuid.UUID:
			return uuidOfBytes{}
		}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

// errNoUUID has pgx send the text as it is, for the server to refuse in its own words.
var errNoUUID = errors.New("no UUID of 36 characters")

type uuidOfText struct{}

// Encode implements pgtype.EncodePlan.
func (uuidOfText) Encode(value any, buf []byte) ([]byte, error) {
	const characters = 36
	text, ok := value.(string)
	if !ok || len(text) != characters {
		return nil, errNoUUID
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return nil, errNoUUID
	}
	return append(buf, id[:]...), nil
}

type uuidOfBytes struct{}

// Encode implements pgtype.EncodePlan.
func (uuidOfBytes) Encode(value any, buf []byte) ([]byte, error) {
	id, ok := value.(uuid.UUID)
	if !ok {
		return nil, errNoUUID
	}
	return append(buf, id[:]...), nil
}
