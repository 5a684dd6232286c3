package stack

// AuthToken signs what the emulated Twilio posts, for tests that post in its name.
const AuthToken = authToken
