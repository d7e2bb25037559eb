from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pyarrow as pa

from mergesvm.data.text_parser.buffers import MAX_POOLED_BUFFERS, BufferPool


def test_no_two_live_arrays_share_memory():
    pool, held = BufferPool(), {}
    generator = np.random.default_rng(0)
    for number in range(2_000):
        array = pool.empty((int(generator.integers(0, 4)), int(generator.integers(0, 50))))
        array[:] = number
        # A view, or what Arrow makes of one, keeps the memory as well as the array does.
        kept = array[1:] if number % 2 else pa.py_buffer(array[:1]) if len(array) and array.size else array
        held[int(generator.integers(0, 12))] = number, kept
        del array, kept
        for value, view in held.values():
            assert (np.frombuffer(view) == value).all() if isinstance(view, pa.Buffer) else (view == value).all()


def test_memory_is_given_out_again_and_not_hoarded():
    pool = BufferPool()
    arrays = [pool.empty((10, 100)) for _ in range(3 * MAX_POOLED_BUFFERS)]
    places = {array.ctypes.data for array in arrays}
    arrays.clear()
    assert len(pool._free) == MAX_POOLED_BUFFERS
    again = [pool.empty((10, 100)) for _ in range(MAX_POOLED_BUFFERS)]
    assert {array.ctypes.data for array in again} <= places


def test_arrays_may_come_to_their_end_in_any_thread_and_by_the_collector_of_garbage():
    pool, wrong = BufferPool(), []

    def work(number):
        for _ in range(300):
            array = pool.empty((5, 200))
            array[:] = number
            circle = [array]
            circle.append(circle)
            if not (array == number).all():
                wrong.append(number)
            del array, circle

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not wrong
    assert len(pool._free) <= MAX_POOLED_BUFFERS


def test_nothing_is_kept_for_who_is_gone():
    pool = BufferPool()
    array = pool.empty((10, 100))
    pool.empty((10, 100))  # comes to its end at once, and is kept
    kept = weakref.ref(pool._free[0])
    held = array[:1]
    del pool, array
    gc.collect()
    assert kept() is None
    held[:] = 1.0
    del held
