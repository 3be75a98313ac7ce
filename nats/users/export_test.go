package users

// Unlimited is unlimited for tests.
var Unlimited = unlimited
