/* SPDX-License-Identifier: Apache-2.0 */
/* A library by one of the vendor's names: the functions are those of the library it depends on. */
extern const char cuda_fake_door[];
__attribute__((visibility("default"))) const char cuda_fake_door[] = "see tests/fakes/cuda_fake.h";
