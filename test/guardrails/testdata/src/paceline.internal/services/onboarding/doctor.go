package onboarding

const sqlSkew = `select clock_timestamp()` // the doctor compares clocks
