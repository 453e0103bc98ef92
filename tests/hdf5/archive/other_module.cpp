// A module of another build of cfck, which programs must refuse.
extern "C" __attribute__((visibility("default"))) const void* cfck_archive_adapter(
    const char*, const char** own) {
  *own = "cfck 99.0.0";
  return nullptr;
}
