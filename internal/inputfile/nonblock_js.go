package inputfile

// NonBlocking is 0: there are no pipes in JavaScript.
const NonBlocking = 0
