// The one file of the targets that rubato_headers() makes: CMake compiles headers beforehand for a file.
