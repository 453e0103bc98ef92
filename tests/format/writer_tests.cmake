# Tests of everything that writes files.
add_library(cfck_sample_tensors STATIC sample_tensors.cpp)
target_link_libraries(cfck_sample_tensors PUBLIC cfck_flags cfck::cfck GTest::gtest)
foreach(name writer writer_sources stages blocks bounds bounds_extremes calibration feedback refined shards targets alias add_alias update update_checkpoint append repair killed moved_from)
  cfck_add_test(${name}_test ${name}_test.cpp LIBS cfck_sample_tensors)
endforeach()
cfck_add_test(faults_test faults_test.cpp LIBS cfck_sample_tensors cfck_test_support)
# The whole program has an operator new that fails on demand.
cfck_add_test(memory_test memory_test.cpp ${PROJECT_SOURCE_DIR}/tests/support/failing_new.cpp
  LIBS cfck_sample_tensors)

# Suites whose name ends in Long run in the long tier only (ctest -L long).
add_executable(large_test large_test.cpp)
target_link_libraries(large_test PRIVATE cfck_sample_tensors GTest::gtest_main Threads::Threads)
gtest_discover_tests(large_test TEST_FILTER "Large.*" DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
gtest_discover_tests(large_test TEST_FILTER "LargeLong.*" DISCOVERY_TIMEOUT 60
                     TEST_LIST large_long_tests PROPERTIES TIMEOUT 3600 LABELS long)
