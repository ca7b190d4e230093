package float16
