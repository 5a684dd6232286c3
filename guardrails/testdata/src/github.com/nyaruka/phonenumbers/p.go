package phonenumbers

func Parse() {}
